package page

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"keyfold/engine/notify"
)

// merge returns a form that was made from former preferences as one of the present ones: what
// its user changed stands over them. differ are the fields that were changed here and there, to
// other values.
func merge(was, typed, present url.Values) (merged url.Values, differ []string) {
	merged = url.Values{}
	names := map[string]bool{}
	for _, values := range []url.Values{was, typed, present} {
		for name := range values {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		values := typed[name]
		switch {
		case sameValues(typed[name], was[name]):
			values = present[name]
		case !sameValues(present[name], was[name]) && !sameValues(present[name], typed[name]):
			differ = append(differ, name)
		}
		if len(values) > 0 {
			merged[name] = values
		}
	}
	return merged, differ
}

// sameValues compares without empty values: an empty field and none are one.
func sameValues(a, b []string) bool {
	empty := func(s string) bool { return s == "" }
	return slices.Equal(slices.DeleteFunc(slices.Clone(a), empty), slices.DeleteFunc(slices.Clone(b), empty))
}

// describe says what a field of the present preferences has.
func (e *editor) describe(field string, present url.Values) string {
	value := strings.Join(present[field], ", ")
	label, box := e.label(field)
	switch {
	case box && value == checked:
		value = "on"
	case box:
		value = "off"
	case value == "":
		value = "empty"
	case field == fieldMute || field == fieldSnooze:
		value = map[string]string{untilNone: "off", untilOther: "on"}[value]
	default:
		value = strings.Replace(value, "T", " ", map[bool]int{true: 1}[strings.HasSuffix(field, "_until")])
	}
	return fmt.Sprintf("%s: %s", label, value)
}

// label names a field, and reports whether it is a box.
func (e *editor) label(field string) (text string, box bool) {
	kind, rest, _ := strings.Cut(field, ".")
	switch kind {
	case fieldPaused:
		return "Pause all notifications", true
	case fieldMute, fieldSnooze:
		return map[string]string{fieldMute: "Mute", fieldSnooze: "Snooze"}[kind], false
	case fieldMuteUntil:
		return "Muted until", false
	case fieldSnoozeUntil:
		return "Snoozed until", false
	case fieldZone:
		return "Time zone", false
	case fieldDigest:
		return "Times of summaries", false
	case "channel":
		return channelTitles[notify.ParseChannel(rest)], true
	case "type":
		return typeTitles[notify.ParseEventType(rest)], true
	case "quiet":
		return "Quiet hours", false
	}
	for _, t := range e.topics() {
		if channel, ok := strings.CutPrefix(rest, t.Name+"."); ok && kind == "topic" {
			return titleOf(t) + ", " + channelTitles[notify.ParseChannel(channel)], false
		}
		if kind == "held" && rest == t.Name {
			return titleOf(t) + ", muted or snoozed", true
		}
	}
	return field, false
}

func titleOf(t *notify.Topic) string {
	if t.Title != "" {
		return t.Title
	}
	return t.Name
}

var channelTitles = map[notify.Channel]string{
	notify.Push: "Push", notify.Email: "Email", notify.SMS: "Text message", notify.InApp: "In the app",
}

var typeTitles = map[notify.EventType]string{
	notify.Message: "Messages", notify.Reminder: "Reminders", notify.Alert: "Alerts", notify.Promo: "Promotions",
	notify.System: "System notices", notify.Update: "Updates", notify.Security: "Security notices", notify.Digest: "Summaries",
}
