package notifications

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// draft is a notification before it has an id and texts.
type draft struct {
	thing

	kind *kind
	to   *person
	at   engine.Millis
	edit edit
	roll int // the chance of this draft, by which its edit and its producer vary
}

// thing is what a notification tells of.
type thing struct {
	number  int // of the visit or of the broadcast
	index   int // within the notifications about one thing
	of      int // so many
	product *profile.Product
	when    engine.Millis
}

// edit is how a text differs from the one it repeats.
type edit int

const (
	unchanged edit = iota
	words          // two words, or two short phrases, have another wording
	order          // its first and last sentences have changed places
	casing         // other casing and punctuation
	edits
)

var places = regexp.MustCompile(`\{\w+\}|\[[^]]+\]`)

// texts renders a draft with an edit.
func (d *draft) texts(e edit) (title, message string) {
	l := data().Languages[d.to.Language]
	lines := slices.Clone(l.Texts[d.kind.Name])
	choices := strings.Count(strings.Join(lines, ""), "[")
	choice := d.roll // counts from another choice for each draft
	for i := range lines {
		lines[i] = places.ReplaceAllStringFunc(lines[i], func(place string) string {
			inside := place[1 : len(place)-1]
			if place[0] == '{' {
				return d.slot(inside)
			}
			wording := d.to.group
			if choice++; e == words && choice%choices < 2 {
				wording++
			}
			wordings := strings.Split(inside, "|")
			return wordings[wording%len(wordings)]
		})
	}
	last := len(lines) - 1
	switch e {
	case order:
		lines[1], lines[last] = lines[last], lines[1]
	case casing:
		lines[0] = strings.ToUpper(lines[0])
		lines[last] = strings.TrimRight(lines[last], ".。") + "!"
	}
	return lines[0], strings.Join(lines[1:], l.Joint)
}

// fill replaces the slots of a text.
func (d *draft) fill(text string) string {
	return places.ReplaceAllStringFunc(text, func(place string) string { return d.slot(place[1 : len(place)-1]) })
}

// slot returns what a draft has for a slot.
func (d *draft) slot(name string) string {
	l := data().Languages[d.to.Language]
	percent := strconv.Itoa(5 + 5*((d.number+4*d.index)%9))
	department := d.product.Category[strings.LastIndexByte(d.product.Category, '/')+1:]
	switch name {
	case "user":
		return d.to.ID
	case "name":
		return d.to.name
	case "number":
		return strconv.Itoa(d.number)
	case "index":
		return strconv.Itoa(d.index)
	case "order":
		return strconv.Itoa(100_000 + d.number)
	case "product":
		return d.product.Name
	case "product_id":
		return strconv.Itoa(int(d.product.ID))
	case "amount":
		return fmt.Sprintf(d.to.Price, float64(5+d.product.ID*7919%245)+0.9)
	case "date":
		return (d.when + hours(d.kind.Ahead)).Time().Format(l.Date)
	case "time":
		return d.when.Time().Format("15:04")
	case "parcel":
		return fmt.Sprintf("%d/%d", d.index+1, d.of)
	case "person":
		return l.Names[d.number%len(l.Names)]
	case "percent":
		return percent
	case "department":
		return department
	case "voucher":
		return strings.ToUpper(department[:3]) + percent
	case "code":
		return strconv.Itoa(100_000 + (d.number*7919+d.index*104_729)%900_000)
	case "device":
		return [...]string{"mobile", "desktop", "tablet"}[d.number%3]
	case "count":
		return strconv.Itoa(3 + d.number%20)
	case "said":
		return d.fill(l.Said[(d.number+d.index)%len(l.Said)])
	case "status":
		return l.Steps[d.index]
	}
	panic("{" + name + "} is not known")
}
