package rule

import (
	"strings"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// field is what conditions can ask an event for. One of set, text, number, instant and path
// is there.
type field struct {
	name   string
	always bool // it is never null

	// set returns bits: of null bit 0, of the word i of words bit i + 1. Without words
	// the field is a boolean: bit 1 is false, bit 2 true.
	set   func(in *notify.Input) uint
	words []string

	text func(in *notify.Input) string // "": null

	number func(in *notify.Input) (n int64, there bool)
	places int      // n is the value x 10^places
	bounds [2]int64 // of the value, where eq and in can be checked against them

	instant func(in *notify.Input) engine.Millis

	path   string                                 // of metadata or of attributes
	values func(in *notify.Input) notify.Metadata // where path is there
}

// value returns the value under the path.
func (f *field) value(in *notify.Input) notify.Value { return f.values(in).Get(f.path) }

// own reports whether the field's value is the event's own, so that every decision of the
// event reads the same.
func (f *field) own() bool {
	return f.number == nil && f.instant == nil && f.name != "in_quiet_hours" && !strings.HasPrefix(f.name, userPrefix)
}

// perSecond is the number of decimal places of fields in seconds, which are computed
// in milliseconds.
const perSecond = 3

var fields = []field{
	{
		name: "event_type", always: true, words: namesOf(notify.EventTypes),
		set: func(in *notify.Input) uint { return 1 << in.Event.Type },
	},
	{
		name: "priority_hint", words: namesOf([]notify.Hint{notify.Critical, notify.High, notify.Medium, notify.Low}),
		set: func(in *notify.Input) uint { return 1 << in.Event.Hint },
	},
	{name: "source", always: true, text: func(in *notify.Input) string { return in.Event.Source }},
	{name: "channel", always: true, words: namesOf(notify.Channels), set: channels},
	{name: "user_id", always: true, text: func(in *notify.Input) string { return in.Event.UserID }},
	{name: "dedupe_key", text: func(in *notify.Input) string { return in.Event.DedupeKey }},
	{name: "title", always: true, text: func(in *notify.Input) string { return in.Event.Title }},
	{name: "message", text: func(in *notify.Input) string { return in.Event.Message }},
	{
		name: "age_s", always: true, places: perSecond,
		number: func(in *notify.Input) (int64, bool) { return int64(in.AgeMs), true },
	},
	{
		name: "expires_in_s", places: perSecond,
		number: func(in *notify.Input) (int64, bool) { return int64(in.ExpiresMs), in.Event.ExpiresAt != 0 },
	},
	{
		name: "turn", always: true, bounds: [2]int64{0, notify.MaxTurn},
		number: func(in *notify.Input) (int64, bool) { return int64(in.Turn), true },
	},
	{
		name: "local_hour", always: true, bounds: [2]int64{0, 23},
		number: func(in *notify.Input) (int64, bool) { return int64(in.Hour), true },
	},
	{
		name: "local_weekday", always: true, bounds: [2]int64{1, 7},
		number: func(in *notify.Input) (int64, bool) { return int64(in.Weekday), true },
	},
	{name: "in_quiet_hours", always: true, set: inQuiet},
	count("count_5m", 0), count("count_1h", 1), count("count_24h", 2),
	countOf("count_5m_type", 0, ofType), countOf("count_1h_type", 1, ofType), countOf("count_24h_type", 2, ofType),
	countOf("count_5m_source", 0, ofSource), countOf("count_1h_source", 1, ofSource), countOf("count_24h_source", 2, ofSource),
	countOf("count_5m_channel", 0, ofChannel), countOf("count_1h_channel", 1, ofChannel), countOf("count_24h_channel", 2, ofChannel),
	since("since_last_s", func(in *notify.Input) engine.Millis { return in.SinceLast }),
	since("since_same_type_s", func(in *notify.Input) engine.Millis { return in.SinceSame }),
	{name: "now", always: true, instant: func(in *notify.Input) engine.Millis { return in.Now }},
}

func namesOf[T interface{ String() string }](all []T) (names []string) {
	for _, t := range all {
		names = append(names, t.String())
	}
	return names
}

func channels(in *notify.Input) (bits uint) {
	for _, c := range in.Event.Channels {
		bits |= 1 << c
	}
	return bits
}

func inQuiet(in *notify.Input) uint {
	if in.InQuiet {
		return 1 << 2
	}
	return 1 << 1
}

func count(name string, window int) field {
	return field{
		name: name, always: true,
		number: func(in *notify.Input) (int64, bool) { return int64(in.Counts[window]), true },
	}
}

func since(name string, at func(*notify.Input) engine.Millis) field {
	return field{
		name: name, places: perSecond,
		number: func(in *notify.Input) (int64, bool) { return int64(at(in)), at(in) >= 0 },
	}
}

// metadataLevels is how many names a path into the metadata has at most.
const metadataLevels = 4

// Prefixes of fields that are under a path.
const (
	metadataPrefix = "metadata."
	userPrefix     = "user."
)

func metadataOf(in *notify.Input) notify.Metadata { return in.Event.Metadata }

func attributesOf(in *notify.Input) notify.Metadata { return in.Attributes }

// fieldOf returns the field of a name, nil where there is none.
func fieldOf(name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	if path, ok := strings.CutPrefix(name, metadataPrefix); ok && goodPath(path) {
		return &field{name: name, path: path, values: metadataOf}
	}
	if path, ok := strings.CutPrefix(name, userPrefix); ok && goodPath(path) {
		return &field{name: name, path: path, values: attributesOf}
	}
	return nil
}

// goodPath reports whether a path into the metadata has 1 to 4 names.
func goodPath(path string) bool {
	levels := 0
	for name := range strings.SplitSeq(path, ".") {
		if levels++; name == "" {
			return false
		}
	}
	return levels <= metadataLevels
}

// field reads the name of a field.
func (r *reader) field(n *node) *field {
	if !r.is(n, '"') {
		return nil
	}
	f := fieldOf(n.text)
	switch {
	case f != nil:
	case n.text == "metadata" || strings.HasPrefix(n.text, metadataPrefix):
		r.fault(n, "malformed field %q: expected metadata. and 1 to %d names with dots between them, such as metadata.order.id",
			n.text, metadataLevels)
	case strings.HasPrefix(n.text, userPrefix):
		r.fault(n, "malformed field %q: expected user. and 1 to %d names with dots between them, such as user.plan", n.text, metadataLevels)
	default:
		names := make([]string, len(fields), len(fields)+2)
		for i := range fields {
			names[i] = fields[i].name
		}
		r.fault(n, "unknown field %q: %s", n.text, hint(n.text, append(names, "metadata.<path>", "user.<path>")))
	}
	return f
}
