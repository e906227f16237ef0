package notifications

import (
	"math/rand/v2"
	"strings"

	"keyfold/engine/notify"
)

// Edit is how a text differs from the one it repeats.
type Edit uint8

// The edits.
const (
	Unchanged Edit = iota
	Words          // two words, or two short phrases, have another wording
	Order          // its sentences stand in another order
	Case           // other casing, punctuation or white space
	Short          // its last sentence is left out
	editCount = iota
)

// String returns the edit's name.
func (e Edit) String() string {
	return [editCount]string{"unchanged", "words", "order", "case", "short"}[e]
}

// limits of an event's texts, in characters.
const (
	maxTitle   = notify.MaxTitleRunes
	maxMessage = notify.MaxMessageRunes
)

// texts renders a draft: its own wording, and its edit. Roll makes one edit differ from
// another of its kind.
func (d *draft) texts() (title, message string) {
	l := languages()[d.to.country.language]
	t := &l.templates[d.kind]
	picks := make([]int, len(t.choices))
	for i, n := range t.choices {
		picks[i] = d.to.group % n
	}
	edit := d.edit
	if edit == Order && len(t.message) < 2 || edit == Short && len(t.message) < 2 {
		edit = Words
	}
	r := rand.New(rand.NewPCG(d.roll, 3))
	if edit == Words {
		for _, i := range r.Perm(len(picks))[:min(2, len(picks))] {
			picks[i] = (picks[i] + 1) % t.choices[i]
		}
	}
	out := t.render(&d.values, picks)
	switch n := len(out.sentences); edit {
	case Order:
		out.sentences[0], out.sentences[n-1] = out.sentences[n-1], out.sentences[0]
	case Short:
		out.sentences = out.sentences[:n-1]
	case Case:
		out.dress(r, l.joint)
	}
	return cut(out.title, maxTitle), cut(strings.Join(out.sentences, l.joint), maxMessage)
}

// dress changes what a reader hardly sees.
func (t *text) dress(r *rand.Rand, joint string) {
	last := len(t.sentences) - 1
	switch r.IntN(5) {
	case 0:
		t.title = strings.ToUpper(t.title)
	case 1:
		t.title = strings.ToLower(t.title) + "!"
	case 2:
		t.title = "✨ " + t.title
		t.sentences[last] = strings.TrimRight(t.sentences[last], ".。") + "!"
	case 3:
		t.sentences[0] += joint + joint
		t.title += "…"
	case 4:
		for i := range t.sentences {
			// A comma or a point within an amount stays.
			t.sentences[i] = strings.TrimRight(strings.ReplaceAll(t.sentences[i], ", ", " "), ".") + "!"
		}
	}
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n])
	}
	return s
}
