package ruleset

import (
	"fmt"
	"os"

	"keyfold/engine/notify/rule"
	"keyfold/internal/cli"
)

// Checked is what a look at a set has found.
type Checked struct {
	File     string         `json:"file"`
	Valid    bool           `json:"valid"`
	Version  string         `json:"version,omitempty"`
	Rules    int            `json:"rules"`
	Faults   []rule.Fault   `json:"faults"` // warnings too
	Failures []rule.Failure `json:"failures,omitempty"`
	Cases    int            `json:"cases"`

	Text     []byte         `json:"-"`
	Document *rule.Document `json:"-"` // nil: it cannot be used
	tested   bool
}

// Lint reads the set of a file and finds every fault at once.
func Lint(path string) (*Checked, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return LintText(path, text), nil
}

// LintText is Lint of a text, which findings call name.
func LintText(name string, text []byte) *Checked {
	c := &Checked{File: name, Text: text, Faults: []rule.Fault{}}
	var faults rule.Faults
	c.Document, faults = rule.Read(text)
	c.Faults = append(c.Faults, faults...)
	if d := c.Document; d != nil {
		c.Valid, c.Version, c.Rules, c.Cases = true, d.Version, len(d.Rules), len(d.Cases)
	}
	return c
}

// Follows adds what keeps the set from following another one: rules that changed and have
// no higher version, and rules that are gone.
func (c *Checked) Follows(previous *rule.Document) {
	if c.Document != nil {
		c.Faults = append(c.Faults, rule.CheckVersions(previous, c.Document)...)
	}
	c.Valid = c.Valid && rule.Faults(c.Faults).Err() == nil
}

// Test decides the set's own cases.
func (c *Checked) Test() {
	if c.Document != nil {
		c.Failures, c.tested = c.Document.Test(), true
	}
}

// Print writes the findings.
func (c *Checked) Print(w *cli.Text) {
	for _, f := range c.Faults {
		kind := "fault"
		if f.Warning {
			kind = "warning"
		}
		where := f.Path
		if f.Rule != "" {
			where = fmt.Sprintf("%s (%s)", f.Path, f.Rule)
		}
		w.Line("%s: %s: %s", kind, cli.Printable(where), cli.Printable(f.Text))
	}
	if c.Valid {
		w.Line("%s: %s, version %s, %s: it can be used.", c.File, cli.Count(int64(c.Rules), "rule"), c.Version, cli.Count(int64(c.Cases), "test case"))
	}
	for _, f := range c.Failures {
		w.Line("failed: %s (%s): %s", cli.Printable(f.Case), f.Path, cli.Printable(f.Text))
	}
	if c.Valid && c.tested && len(c.Failures) == 0 {
		w.Line("%s passed.", cli.Count(int64(c.Cases), "test case"))
	}
}

// Err is the error of a set that cannot be used, or of which cases fail.
func (c *Checked) Err() error {
	faults := 0
	for _, f := range c.Faults {
		if !f.Warning {
			faults++
		}
	}
	switch {
	case faults > 0:
		return fmt.Errorf("%s cannot be used: %s", c.File, cli.Count(int64(faults), "fault"))
	case len(c.Failures) > 0:
		return fmt.Errorf("%s: %s of %d failed", c.File, cli.Count(int64(len(c.Failures)), "test case"), c.Cases)
	}
	return nil
}
