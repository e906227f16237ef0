package notifications

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed texts.txt
var textsFile string

// slot is a place in a text that a notification fills.
type slot uint8

const (
	slotName slot = iota
	slotOrder
	slotProduct
	slotAmount
	slotDate
	slotParcel
	slotPerson
	slotPercent
	slotDepartment
	slotVoucher
	slotCode
	slotDevice
	slotTime
	slotCount
	slotSaid
	slotStatus
	slots = iota
)

var slotNames = [slots]string{
	"name", "order", "product", "amount", "date", "parcel", "person", "percent", "department",
	"voucher", "code", "device", "time", "count", "said", "status",
}

// values are what a notification puts into the slots.
type values [slots]string

// part is a literal, a slot or a choice between wordings.
type part struct {
	text    string
	slot    int      // -1: none
	choices []string // nil: none
	choice  int      // number of the choice within the template
}

// template is the text of one kind in one language.
type template struct {
	title   []part
	message [][]part // by sentence
	choices []int    // how many wordings each choice has
}

// language has the texts of one language.
type language struct {
	templates [kindCount]template
	said      []string // lines of support, with slots
	steps     []string // states of an order, in their order
	joint     string   // between sentences
}

// languages are all texts, by language.
var languages = sync.OnceValue(func() map[string]*language {
	all, err := readTexts(textsFile)
	if err != nil {
		panic(err) // the file is a part of the program; its tests read it
	}
	return all
})

func readTexts(file string) (map[string]*language, error) {
	all := map[string]*language{}
	var l *language
	for n, line := range strings.Split(file, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if name, found := strings.CutPrefix(line, "= "); found {
			l = &language{joint: " "}
			if name == "ja" {
				l.joint = ""
			}
			all[name] = l
			continue
		}
		if l == nil {
			return nil, fmt.Errorf("line %d: a text before the first language", n+1)
		}
		if err := l.read(strings.Split(line, " :: ")); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return all, nil
}

func (l *language) read(columns []string) error {
	switch columns[0] {
	case "said":
		l.said = columns[1:]
		return nil
	case "steps":
		l.steps = columns[1:]
		return nil
	}
	k := kindOf(columns[0])
	if k == 0 || len(columns) != 3 {
		return fmt.Errorf("found %q with %d columns, expected a kind, a title and a message", columns[0], len(columns))
	}
	t := &l.templates[k]
	var err error
	if t.title, err = t.parse(columns[1]); err != nil {
		return err
	}
	for _, sentence := range strings.Split(columns[2], " / ") {
		parts, err := t.parse(sentence)
		if err != nil {
			return err
		}
		t.message = append(t.message, parts)
	}
	return nil
}

func kindOf(name string) kind {
	for k := range services {
		if services[k].name == name && name != "" {
			return kind(k)
		}
	}
	return 0
}

// parse reads a text with its slots and choices. A choice has no slots.
func (t *template) parse(text string) (parts []part, err error) {
	for text != "" {
		open := strings.IndexAny(text, "[{")
		if open < 0 {
			open = len(text)
		}
		if open > 0 {
			parts = append(parts, part{text: text[:open], slot: -1})
			text = text[open:]
			continue
		}
		end := strings.IndexAny(text, "]}")
		if end < 0 {
			return nil, fmt.Errorf("%q has no end", text)
		}
		inside := text[1:end]
		if text[0] == '{' {
			s := indexOf(inside)
			if s < 0 {
				return nil, fmt.Errorf("{%s} is not known", inside)
			}
			parts = append(parts, part{slot: s})
		} else {
			choices := strings.Split(inside, "|")
			parts = append(parts, part{slot: -1, choices: choices, choice: len(t.choices)})
			t.choices = append(t.choices, len(choices))
		}
		text = text[end+1:]
	}
	return parts, nil
}

func indexOf(name string) int {
	for i := range slotNames {
		if slotNames[i] == name {
			return i
		}
	}
	return -1
}

// fill replaces the slots of a line of support.
func fill(line string, v *values) string {
	for i := range slotNames {
		line = strings.ReplaceAll(line, "{"+slotNames[i]+"}", v[i])
	}
	return line
}

// text is a rendered notification, before its edits.
type text struct {
	title     string
	sentences []string
}

// render makes the text with the wording picks[i] for choice i.
func (t *template) render(v *values, picks []int) text {
	out := text{title: join(t.title, v, picks)}
	for _, sentence := range t.message {
		out.sentences = append(out.sentences, join(sentence, v, picks))
	}
	return out
}

func join(parts []part, v *values, picks []int) string {
	var b strings.Builder
	for i := range parts {
		switch p := &parts[i]; {
		case p.slot >= 0:
			b.WriteString(v[p.slot])
		case p.choices != nil:
			b.WriteString(p.choices[picks[p.choice]])
		default:
			b.WriteString(p.text)
		}
	}
	return b.String()
}
