package notifications

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/ledger/postgres"
)

// rulesDiffCmd compares sets.
type rulesDiffCmd struct {
	A int64 `arg:"" name:"a" help:"The number of the set before."`
	B int64 `arg:"" name:"b" help:"The number of the set after."`
}

// Help is the long text.
func (c *rulesDiffCmd) Help() string {
	return `Rules are compared by rule_id, test cases by name, all else by its place. Nothing else is printed than
what differs: the order of rules in the file does not count.

Examples:
  keyfold notify rules diff 40 41
  keyfold notify rules diff 40 41 -o json`
}

func (c *rulesDiffCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.A < 1 || c.B < 1, "the sets %d and %d: numbers begin at 1: `keyfold notify rules list` shows them", c.A, c.B)
	return errors.Join(faults.Err(), a.CheckLedger())
}

// Run prints what differs.
func (c *rulesDiffCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		var documents [2]any
		for i, version := range []int64{c.A, c.B} {
			set, err := numbered(a, l, version)
			if err != nil {
				return err
			}
			if documents[i], err = decoded(set.Document); err != nil {
				return fmt.Errorf("the set %d: %w", version, err)
			}
		}
		names := namesOf(documents[0])
		maps.Copy(names, namesOf(documents[1]))
		differences := []difference{}
		compare("", documents[0], documents[1], func(path string, was, is any) {
			differences = append(differences, difference{names[ruleOf(path)], path, was, is})
		})
		return a.Emit(map[string]any{"a": c.A, "b": c.B, "differences": differences}, func(w *cli.Text) {
			for _, d := range differences {
				w.Line("%s: %s -> %s", cli.Printable(d.place()), shownValue(d.Was), shownValue(d.Is))
			}
			if len(differences) == 0 {
				w.Line("the sets %d and %d say the same", c.A, c.B)
			}
		})
	})
}

// difference is a value that two documents do not share; nil where one has none.
type difference struct {
	Rule string `json:"rule,omitempty"` // its name in the later set that has it
	Path string `json:"path"`
	Was  any    `json:"was"`
	Is   any    `json:"is"`
}

// place names a rule in place of its id.
func (d *difference) place() string {
	if d.Rule == "" {
		return d.Path
	}
	return fmt.Sprintf("rule %q%s", d.Rule, strings.TrimPrefix(d.Path, "rules["+ruleOf(d.Path)+"]"))
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
