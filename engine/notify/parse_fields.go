package notify

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"

	"keyfold/engine"
)

// notification checks the fields and returns what they make. It is of use only
// where no fault was added.
func (p *parser) notification() *Notification {
	n := &Notification{
		ID:        p.id(fieldEventID, FaultBadEventID),
		UserID:    p.text(fieldUserID, MaxUserRunes),
		Type:      p.eventType(),
		Title:     p.text(fieldTitle, MaxTitleRunes),
		Message:   p.optionalText(fieldMessage, MaxMessageRunes),
		Source:    p.text(fieldSource, MaxSourceRunes),
		Hint:      p.hint(),
		Channels:  p.channels(),
		Timestamp: p.past(fieldTimestamp),
	}
	n.ExpiresAt = p.expiresAt(n.Timestamp)
	n.DedupeKey = p.optionalText(fieldDedupeKey, MaxDedupeRunes)
	n.Metadata = p.metadata()
	n.Replaces = p.replaces(n.DedupeKey)
	n.Follows = p.follows()
	return n
}

// byKey is the value of replaces for all that wait with the same dedupe_key.
const byKey = "dedupe_key"

func (p *parser) replaces(key string) (r Replaces) {
	if !p.set(fieldReplaces, String) {
		return r
	}
	text := string(p.fields[fieldReplaces].Unquoted())
	if text != byKey {
		r.Event = p.id(fieldReplaces, FaultBadReplaces)
		return r
	}
	if key == "" {
		p.fault(fieldReplaces, FaultBadReplaces, "found %q and no dedupe_key, expected one", byKey)
	}
	return Replaces{ByKey: true}
}

// follows reads what keyfold has written itself.
func (p *parser) follows() *Follows {
	if !p.set(fieldFollows, Object) {
		return nil
	}
	f := new(Follows)
	if err := json.Unmarshal(p.fields[fieldFollows].Text, f); err != nil {
		p.fault(fieldFollows, engine.ReasonWrongType, "%v", err)
	}
	return f
}

// kinds holds the kind of a JSON text by its first byte.
var kinds = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '{': Object, '[': Array,
	'-': Number, '0': Number, '1': Number, '2': Number, '3': Number, '4': Number,
	'5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// kindOf returns the kind of a JSON text, Absent for an empty one.
func kindOf(text []byte) Kind {
	if len(text) == 0 {
		return Absent
	}
	return kinds[text[0]]
}

// articles are the kinds as faults name them.
var articles = [...]string{"nothing", "null", "a boolean", "a number", "a string", "an object", "an array"}

// has reports whether a required field is of a kind, and adds a fault where it is
// not.
func (p *parser) has(f field, want Kind) bool {
	switch kind := kindOf(p.fields[f].Text); kind {
	case want:
		return true
	case Absent:
		p.fault(f, engine.ReasonMissingField, "found nothing, expected %s", articles[want])
	default:
		p.fault(f, engine.ReasonWrongType, "found %s, expected %s", articles[kind], articles[want])
	}
	return false
}

// set reports whether an optional field is there, of a kind, and not null.
func (p *parser) set(f field, want Kind) bool {
	return kindOf(p.fields[f].Text) > Null && p.has(f, want)
}

// text returns a required text that is not empty; but for user_id, white space
// only counts as empty.
func (p *parser) text(f field, limit int) string {
	if !p.has(f, String) {
		return ""
	}
	text := p.fields[f].Unquoted()
	if len(text) == 0 || f != fieldUserID && len(bytes.TrimSpace(text)) == 0 {
		p.fault(f, FaultEmpty, "found no text, or only white space; expected 1..%d characters", limit)
	}
	return p.short(f, text, limit)
}

func (p *parser) optionalText(f field, limit int) string {
	if !p.set(f, String) {
		return ""
	}
	return p.short(f, p.fields[f].Unquoted(), limit)
}

func (p *parser) short(f field, text []byte, limit int) string {
	if size := utf8.RuneCount(text); size > limit {
		p.fault(f, FaultTooLong, "found %d characters, expected at most %d", size, limit)
	}
	return string(text)
}

func (p *parser) id(f field, reason string) (id uuid.UUID) {
	if !p.set(f, String) {
		return id
	}
	text := p.fields[f].Unquoted()
	err := id.UnmarshalText(text)
	if err != nil || len(text) != 36 || id == uuid.Nil {
		p.fault(f, reason,
			"found %s, expected a UUID like 018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f, and not the zero one", engine.Quoted(text))
	}
	return id
}

func (p *parser) eventType() EventType {
	if !p.has(fieldEventType, String) {
		return 0
	}
	name := p.fields[fieldEventType].Unquoted()
	t := ParseEventType(string(name))
	if t == 0 {
		p.fault(fieldEventType, engine.ReasonUnknownEventType, "found %s, expected one of %v", engine.Quoted(name), EventTypes)
	}
	return t
}

func (p *parser) hint() Hint {
	if !p.set(fieldHint, String) {
		return 0
	}
	name := p.fields[fieldHint].Unquoted()
	h := ParseHint(string(name))
	if h == 0 {
		p.fault(fieldHint, FaultUnknownHint, "found %s, expected one of %v, null or nothing", engine.Quoted(name), hintNames[1:])
	}
	return h
}

// maxChannelFaults bounds how many faults of one array are named.
const maxChannelFaults = 8

func (p *parser) channels() (channels []Channel) {
	if !p.has(fieldChannel, Array) {
		return nil
	}
	before := len(p.faults)
	array := p.fields[fieldChannel].Text
	for _, element := range tokens(array[1 : len(array)-1]) {
		kind := kindOf(element)
		if kind != String {
			p.fault(fieldChannel, engine.ReasonWrongType, "found %s in the array, expected strings only", articles[kind])
			return nil
		}
		channels = p.channel(channels, engine.Value{Text: element}.Unquoted())
		if len(p.faults)-before == maxChannelFaults {
			return nil
		}
	}
	if len(channels) == 0 && len(p.faults) == before {
		p.fault(fieldChannel, FaultEmpty, "found an empty array, expected at least one of %v", Channels)
	}
	return channels
}

// channel appends the channel of a name.
func (p *parser) channel(channels []Channel, name []byte) []Channel {
	c := ParseChannel(string(name))
	if c == 0 {
		p.fault(fieldChannel, FaultUnknownChannel, "found %s, expected one of %v", engine.Quoted(name), Channels)
		return channels
	}
	if slices.Contains(channels, c) {
		p.fault(fieldChannel, FaultDuplicateChannel, "found %q again, expected each channel once", c)
		return channels
	}
	return append(channels, c)
}

// instant reads a field's timestamp; ok is false where a fault was added.
func (p *parser) instant(f field) (at engine.Millis, ok bool) {
	text := p.fields[f].Unquoted()
	at, err := engine.ParseTimestamp(text)
	if err != nil {
		p.fault(f, engine.ReasonOf(err), "%v", err)
		return 0, false
	}
	if at < engine.Earliest {
		p.fault(f, engine.ReasonBadTimestamp, "found %s, expected the year 1000 or later", engine.Quoted(text))
		return 0, false
	}
	return at, true
}

// noTime stands for a timestamp with a fault.
const noTime = engine.Earliest - 1

// past returns a required timestamp that is not far in the future, noTime where a
// fault was added.
func (p *parser) past(f field) engine.Millis {
	if !p.has(f, String) {
		return noTime
	}
	at, ok := p.instant(f)
	if !ok {
		return noTime
	}
	if at-p.now > MaxFuture {
		p.fault(f, engine.ReasonFutureEvent, "found %s, which is more than 5 minutes after now: check the clock of the service",
			engine.Quoted(p.fields[f].Unquoted()))
	}
	return at
}

func (p *parser) expiresAt(timestamp engine.Millis) engine.Millis {
	if !p.set(fieldExpiresAt, String) {
		return 0
	}
	at, ok := p.instant(fieldExpiresAt)
	if ok && timestamp != noTime && at <= timestamp {
		p.fault(fieldExpiresAt, FaultExpiresTooEarly, "found %s, expected an instant after timestamp, in milliseconds",
			engine.Quoted(p.fields[fieldExpiresAt].Unquoted()))
	}
	return at
}
