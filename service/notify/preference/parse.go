package preference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/internal/cli"
)

// fields are the members of preferences in JSON.
var fields = []string{
	"zone", "quiet", "muted", "channels", "caps", "topics", "digests", "attributes", "paused", "muted_until", "snoozed_until",
}

const (
	maxDigests = 24
	maxName    = 64 // characters of a topic's name
)

// Fault is what is wrong with one member.
type Fault struct {
	Field string // "": it is the whole
	Text  string // begins with the field
}

// Faults is the error of preferences that are not taken, with every fault.
type Faults []Fault

// Error returns the texts, one a line.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i := range f {
		texts[i] = f[i].Text
	}
	return strings.Join(texts, "\n")
}

func (f *Faults) add(field, format string, args ...any) {
	*f = append(*f, Fault{field, field + ": " + fmt.Sprintf(format, args...)})
}

// join adds the lines of an error.
func (f *Faults) join(field string, err error) {
	if err != nil {
		for text := range strings.Lines(err.Error()) {
			f.add(field, "%s", strings.TrimSuffix(text, "\n"))
		}
	}
}

// err returns nil where there is no fault.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Parse reads preferences strictly: a misspelt field would have no effect. It returns the
// members that were given. Members named in more are left to the caller. The error is
// [Faults].
func Parse(text []byte, more ...string) (own notify.Preferences, members map[string]json.RawMessage, err error) {
	members, err = object(text)
	if err != nil {
		return own, nil, err
	}
	faults := unknown(members, slices.Concat(more, fields))
	for _, name := range fields {
		// Each field by itself, so that all faults are named.
		if value, ok := members[name]; ok && !isNull(value) {
			read(name, value, &own, &faults)
		}
	}
	if err := faults.err(); err != nil {
		return notify.Preferences{}, members, err
	}
	return own, members, nil
}

// object reads the members of a JSON object.
func object(text []byte) (members map[string]json.RawMessage, err error) {
	decode := json.NewDecoder(bytes.NewReader(text))
	if err := decode.Decode(&members); err != nil {
		return nil, Faults{{Text: "it must be a JSON object: " + err.Error()}}
	}
	if members == nil {
		return nil, Faults{{Text: "it must be a JSON object, found null: write {} for no preferences"}}
	}
	if decode.More() {
		return nil, Faults{{Text: "something follows the JSON object"}}
	}
	return members, nil
}

// unknown returns the faults of members that are none of those that are known.
func unknown(members map[string]json.RawMessage, known []string) (faults Faults) {
	for name := range members {
		if !slices.Contains(known, name) {
			name = cli.Printable(name)
			faults.add(name, "no such field; the fields are %s", strings.Join(known, ", "))
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Text, b.Text) })
	return faults
}

func isNull(value json.RawMessage) bool { return string(bytes.TrimSpace(value)) == "null" }

// read reads one member into preferences.
func read(name string, value json.RawMessage, own *notify.Preferences, faults *Faults) {
	switch name {
	case "topics":
		own.Topics = readTopics(value, faults)
		return
	case "digests":
		own.Digests = readDigests(value, faults)
		return
	case "muted_until":
		own.MutedUntil = readInstant(name, value, faults)
		return
	case "snoozed_until":
		own.SnoozedUntil = readInstant(name, value, faults)
		return
	case "paused":
		if json.Unmarshal(value, &own.Paused) != nil {
			faults.add(name, "found %s, expected true or false", shown(value))
		}
		return
	case "attributes":
		faults.join(name, own.Attributes.UnmarshalJSON(value))
		return
	}
	if err := checkShape(name, value); err != nil {
		faults.join(name, err)
		return
	}
	text, err := json.Marshal(map[string]json.RawMessage{name: value})
	var part notify.Preferences
	if err == nil {
		err = json.Unmarshal(text, &part)
	}
	if err != nil {
		faults.join(name, err)
		return
	}
	switch name {
	case "zone":
		own.Zone = part.Zone
	case "quiet":
		own.Quiet = part.Quiet
		faults.join(name, own.Quiet.Validate())
	case "muted":
		own.Muted = part.Muted
		checkMuted(own.Muted, faults)
	case "channels":
		own.Channels = part.Channels
		if slices.Contains(own.Channels, 0) { // JSON's null and "" leave an entry as it is
			faults.add(name, "found an entry without a name, expected names of channels")
		}
	case "caps":
		own.Caps = part.Caps
		for i, limit := range own.Caps {
			if limit < 0 || limit > notify.MaxCap {
				faults.add(name, "entry %d is %d: it must be from 0 (the policy's) to %d", i+1, limit, notify.MaxCap)
			}
		}
	}
}

func checkMuted(muted []notify.EventType, faults *Faults) {
	if slices.Contains(muted, 0) {
		faults.add("muted", "found an entry without a name, expected names of types")
	}
	if slices.Contains(muted, notify.Security) {
		faults.add("muted", "SECURITY cannot be muted: leave it out")
	}
}

// readTopics reads what is chosen of each topic. One of which nothing is chosen is left out.
func readTopics(value json.RawMessage, faults *Faults) map[string]notify.TopicPreference {
	const field = "topics"
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		faults.add(field, `found %s, expected an object such as {"offers":{"channels":{"push":"off"}}}`, shown(value))
		return nil
	}
	if len(members) > notify.MaxTopics {
		faults.add(field, "found %d topics, expected at most %d", len(members), notify.MaxTopics)
		return nil
	}
	all := map[string]notify.TopicPreference{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !validName(name) {
			faults.add(field, "found a topic named %q, expected 1 to %d of the characters a-z, 0-9, _ and -", short(name), maxName)
			continue
		}
		if p := readTopic(field+": "+name, members[name], faults); p != (notify.TopicPreference{}) {
			all[name] = p
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// readTopic reads what is chosen of one topic.
func readTopic(label string, value json.RawMessage, faults *Faults) (p notify.TopicPreference) {
	fault := func(format string, args ...any) {
		*faults = append(*faults, Fault{"topics", label + ": " + fmt.Sprintf(format, args...)})
	}
	var members, channels map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		fault(`found %s, expected an object such as {"channels":{"push":"off"}}`, shown(value))
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch text := members[name]; {
		case name != "channels" && name != "muted_until" && name != "snoozed_until":
			fault("%s: no such field; the fields are channels, muted_until, snoozed_until", cli.Printable(short(name)))
		case isNull(text):
		case name == "channels":
			if json.Unmarshal(text, &channels) != nil {
				fault(`channels: found %s, expected an object such as {"push":"off"}`, shown(text))
			}
		case !isInstant(text):
			fault("%s: found %s, expected %s", name, shown(text), instantShape)
		case name == "muted_until":
			p.MutedUntil = instantOf(text)
		default:
			p.SnoozedUntil = instantOf(text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		channel := notify.ParseChannel(name)
		var choice *notify.Choice
		switch err := json.Unmarshal(channels[name], &choice); {
		case channel == 0:
			fault("channels: found %q, expected one of push, email, sms, in_app", short(name))
		case err == nil && choice == nil: // null: nothing is chosen
		case err != nil || *choice == 0:
			fault("%s: found %s, expected one of on, off, digest", name, shown(channels[name]))
		default:
			p.Channels[channel] = *choice
		}
	}
	return p
}

func validName(name string) bool {
	const signs = "abcdefghijklmnopqrstuvwxyz0123456789_-"
	return len(name) >= 1 && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(signs, r) })
}

// readDigests reads the times of digests in any order.
func readDigests(value json.RawMessage, faults *Faults) []quiet.Clock {
	const field = "digests"
	var texts []*string
	if json.Unmarshal(value, &texts) != nil || slices.Contains(texts, nil) {
		faults.add(field, `found %s, expected a list of times such as ["08:00","18:00"]`, shown(value))
		return nil
	}
	if len(texts) > maxDigests {
		faults.add(field, "found %d times, expected at most %d", len(texts), maxDigests)
		return nil
	}
	var all []quiet.Clock
	for _, text := range texts {
		at, err := quiet.ParseClock(*text)
		switch {
		case err != nil:
			faults.join(field, err)
		case at >= 24*60:
			faults.add(field, `found "24:00", expected a time before it: write "00:00"`)
		case slices.Contains(all, at):
			faults.add(field, "%v is there twice: leave one out", at)
		default:
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

const instantShape = "an instant such as 2026-02-10T14:30:00Z"

func isInstant(value json.RawMessage) bool {
	var at time.Time
	return json.Unmarshal(value, &at) == nil && at.UnixMilli() > 0
}

func readInstant(name string, value json.RawMessage, faults *Faults) engine.Millis {
	if !isInstant(value) {
		faults.add(name, "found %s, expected %s", shown(value), instantShape)
		return 0
	}
	return instantOf(value)
}

// instantOf reads what isInstant has taken.
func instantOf(value json.RawMessage) engine.Millis {
	var at time.Time
	_ = json.Unmarshal(value, &at)
	return engine.MillisOf(at)
}

// checkShape refuses a member whose JSON is of another kind than its field.
func checkShape(name string, value json.RawMessage) error {
	var err error
	var shape string
	switch name {
	case "zone":
		shape, err = `a string such as "Europe/Berlin"`, json.Unmarshal(value, new(string))
	case "muted":
		shape, err = `a list such as ["PROMO"]`, json.Unmarshal(value, new([]string))
	case "channels":
		shape, err = `a list such as ["push","in_app"]`, json.Unmarshal(value, new([]string))
	case "caps":
		var caps []int
		shape, err = "a list of three integers, for 5 minutes, 1 hour and 24 hours, such as [2,4,10]", json.Unmarshal(value, &caps)
		if err == nil && len(caps) != len(notify.Windows) {
			err = errors.New("another number of caps")
		}
	}
	if err != nil {
		return fmt.Errorf("found %s, expected %s", shown(value), shape)
	}
	return nil
}

// shown is the start of a member's JSON.
func shown(value json.RawMessage) string { return fmt.Sprintf("%.60s", cli.Printable(string(value))) }

func short(text string) string { return fmt.Sprintf("%.60s", text) }

// CheckUser judges a user's id.
func CheckUser(id string) error {
	if n := utf8.RuneCountInString(id); n < 1 || n > notify.MaxUserRunes || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return fmt.Errorf("a user id has 1 to %d characters, none of them NUL", notify.MaxUserRunes)
	}
	return nil
}
