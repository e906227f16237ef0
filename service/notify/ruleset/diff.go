package ruleset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"keyfold/internal/cli"
)

// Diff is what differs between two sets.
type Diff struct {
	A           int64        `json:"a"`
	B           int64        `json:"b"`
	Differences []Difference `json:"differences"`
}

// DiffOf compares two documents: rules by rule_id, test cases by name, all else by its place.
func DiffOf(a, b int64, was, is []byte) (*Diff, error) {
	var documents [2]any
	for i, text := range [2][]byte{was, is} {
		var err error
		if documents[i], err = decoded(text); err != nil {
			return nil, fmt.Errorf("the set %d: %w", [2]int64{a, b}[i], err)
		}
	}
	names := namesOf(documents[0])
	maps.Copy(names, namesOf(documents[1]))
	d := &Diff{A: a, B: b, Differences: []Difference{}}
	compare("", documents[0], documents[1], func(path string, was, is any) {
		d.Differences = append(d.Differences, Difference{names[ruleOf(path)], path, was, is})
	})
	return d, nil
}

// Print prints what differs.
func (d *Diff) Print(w *cli.Text) {
	for i := range d.Differences {
		row := d.Differences[i].Row()
		w.Line("%s: %s -> %s", row[0], row[1], row[2])
	}
	if len(d.Differences) == 0 {
		w.Line("%s", d.Same())
	}
}

// Same says that nothing differs.
func (d *Diff) Same() string { return fmt.Sprintf("the sets %d and %d say the same", d.A, d.B) }

// Difference is a value that two documents do not share; nil where one has none.
type Difference struct {
	Rule string `json:"rule,omitempty"` // its name in the later set that has it
	Path string `json:"path"`
	Was  any    `json:"was"`
	Is   any    `json:"is"`
}

// Place names a rule in place of its id.
func (d *Difference) Place() string {
	if d.Rule == "" {
		return d.Path
	}
	return fmt.Sprintf("rule %q%s", d.Rule, strings.TrimPrefix(d.Path, "rules["+ruleOf(d.Path)+"]"))
}

// Row returns the place and both values, each in one line.
func (d *Difference) Row() []string {
	return []string{cli.Printable(d.Place()), shownValue(d.Was), shownValue(d.Is)}
}

// ruleOf returns the rule_id in a path, "" where it has none.
func ruleOf(path string) string {
	rest, _ := strings.CutPrefix(path, "rules[")
	id, _, _ := strings.Cut(rest, "]")
	return id
}

// namesOf returns the names of a document's rules by their ids.
func namesOf(document any) map[string]string {
	names := map[string]string{}
	whole, _ := document.(map[string]any)
	rules, _ := whole["rules"].([]any)
	for _, r := range rules {
		members, _ := r.(map[string]any)
		id, _ := members["rule_id"].(string)
		names[id], _ = members["name"].(string)
	}
	return names
}

// decoded reads a document of any version of keyfold. Numbers stay as they are written.
func decoded(text []byte) (document any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return document, d.Decode(&document)
}

// named are the members of a document that are lists of things with a name of their own.
var named = map[string]string{"rules": "rule_id", "tests": "name"}

// compare finds the values that differ, by their paths.
func compare(path string, was, is any, found func(path string, was, is any)) {
	if reflect.DeepEqual(was, is) {
		return
	}
	a, objects := was.(map[string]any)
	b, both := is.(map[string]any)
	if !objects || !both {
		found(path, was, is)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(union(a, b))) {
		at := path + "." + key
		if path == "" || key[0] == '[' {
			at = path + key
		}
		x, y := a[key], b[key]
		if by := named[key]; by != "" && path == "" {
			x, y = byName(x, by), byName(y, by)
		}
		compare(at, x, y, found)
	}
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// byName makes an object of a list, with the elements' own names in brackets as its keys.
func byName(list any, key string) any {
	elements, ok := list.([]any)
	if !ok {
		return list
	}
	object := map[string]any{}
	for i, e := range elements {
		members, _ := e.(map[string]any)
		name, ok := members[key].(string)
		if !ok {
			name = fmt.Sprint(i)
		}
		object["["+name+"]"] = e
	}
	return object
}

// shownValue is a value in one line.
func shownValue(v any) string {
	if v == nil {
		return "-"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return cli.Printable(string(text))
}
