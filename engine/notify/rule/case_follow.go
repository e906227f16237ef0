package rule

import (
	"strings"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// followCase is a follow-up that a case expects of a NOW.
type followCase struct {
	channels []notify.Channel
	at       engine.Millis // 0: not compared
	digest   string        // "": not compared
}

// followCases reads the follow-ups that are expected, none for an empty list.
func (r *reader) followCases(n *node) *[]followCase {
	all := []followCase{}
	r.list(n, 0, func(n *node) {
		var f followCase
		r.object(n,
			key{"channels", true, func(n *node) { f.channels = words(r, n, 1, notify.Channels...) }},
			key{"at", false, func(n *node) { f.at = r.instant(n) }},
			key{"digest", false, func(n *node) { f.digest = r.string(n, notify.MaxGroupBytes) }},
		)
		all = append(all, f)
	})
	return &all
}

// followTexts returns the follow-ups that were found and those that are expected. What is
// not compared stands in neither.
func followTexts(found []notify.FollowUp, expected []followCase) (string, string) {
	text := func(f followCase) string {
		line := strings.Join(namesOf(f.channels), ", ")
		if f.at != 0 {
			line += " at " + clock(f.at)
		}
		if f.digest != "" {
			line += " in the digest " + f.digest
		}
		return line
	}
	var have, want []string
	for i, f := range found {
		one := followCase{f.Channels, f.At, f.Digest}
		if i < len(expected) && expected[i].at == 0 {
			one.at = 0
		}
		if i < len(expected) && expected[i].digest == "" {
			one.digest = ""
		}
		have = append(have, text(one))
	}
	for _, f := range expected {
		want = append(want, text(f))
	}
	join := func(all []string) string {
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, ", ")
	}
	return join(have), join(want)
}
