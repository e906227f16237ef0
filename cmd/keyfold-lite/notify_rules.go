package main

import (
	"fmt"
	"os"
	"strings"

	"keyfold/cmd/cli"
	"keyfold/engine/notify/rule"
)

type notifyRulesCmd struct {
	Lint lintCmd      `cmd:"" help:"Name every fault of a set of rules."`
	Test rulesTestCmd `cmd:"" help:"Run the test cases that a set of rules brings along."`
	Show rulesShowCmd `cmd:"" help:"Print the shipped set of rules: a file to begin with."`

	Simulate rulesSimulateCmd `cmd:"" help:"Decide past notifications anew by a set of rules, and show what would change. Read-only."`
}

// lintCmd checks a set.
type lintCmd struct {
	File string `arg:"" help:"The set: one JSON document."`
}

// linted is what a look at a set has found.
type linted struct {
	File     string      `json:"file"`
	Valid    bool        `json:"valid"`
	Version  string      `json:"version,omitempty"`
	Rules    int         `json:"rules"`
	Faults   []ruleFault `json:"faults"` // warnings too
	Failures []failure   `json:"failures,omitempty"`
	Cases    int         `json:"cases"`
}

type ruleFault struct {
	Rule    string `json:"rule,omitempty"`
	Path    string `json:"path"`
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"`
}

type failure struct {
	Case string `json:"case"`
	Path string `json:"path"`
	Text string `json:"text"`
}

// lint reads a set. document is nil where it cannot be used.
func lint(path string) (found linted, document *rule.Document, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return found, nil, err
	}
	document, faults := rule.Read(text)
	found = linted{File: path, Valid: document != nil, Faults: []ruleFault{}}
	for _, f := range faults {
		found.Faults = append(found.Faults, ruleFault{f.Rule, f.Path, f.Text, f.Warning})
	}
	if document != nil {
		found.Version, found.Rules, found.Cases = document.Version, len(document.Rules), len(document.Cases)
	}
	return found, document, nil
}

// Run prints every fault at once.
func (c *lintCmd) Run(a *app) error {
	found, _, err := lint(c.File)
	if err != nil {
		return err
	}
	if err := a.Emit(found, found.print); err != nil {
		return err
	}
	return found.err()
}

func (l *linted) print(w *cli.Text) {
	for _, f := range l.Faults {
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
	if l.Valid {
		w.Line("%s: %s, version %s, %s: it can be used.", l.File, cli.Count(int64(l.Rules), "rule"), l.Version, cli.Count(int64(l.Cases), "test case"))
	}
}

// err is the error of a set that cannot be used, or whose cases fail.
func (l *linted) err() error {
	faults := 0
	for _, f := range l.Faults {
		if !f.Warning {
			faults++
		}
	}
	switch {
	case faults > 0:
		return fmt.Errorf("%s cannot be used: %s", l.File, cli.Count(int64(faults), "fault"))
	case len(l.Failures) > 0:
		return fmt.Errorf("%s: %s of %d failed", l.File, cli.Count(int64(len(l.Failures)), "test case"), l.Cases)
	}
	return nil
}

// rulesTestCmd runs a set's cases.
type rulesTestCmd struct {
	File string `arg:"" help:"The set: one JSON document."`
}

// Run decides every case and prints those that fail.
func (c *rulesTestCmd) Run(a *app) error {
	found, document, err := lint(c.File)
	if err != nil {
		return err
	}
	if document != nil {
		for _, f := range document.Test() {
			found.Failures = append(found.Failures, failure{f.Case, f.Path, f.Text})
		}
	}
	if err := a.Emit(found, func(w *cli.Text) {
		found.print(w)
		for _, f := range found.Failures {
			w.Line("failed: %s (%s): %s", cli.Printable(f.Case), f.Path, cli.Printable(f.Text))
		}
		if found.Valid && len(found.Failures) == 0 {
			w.Line("%s passed.", cli.Count(int64(found.Cases), "test case"))
		}
	}); err != nil {
		return err
	}
	return found.err()
}

// rulesShowCmd prints the shipped set.
type rulesShowCmd struct{}

// Run prints it as a file that can be changed.
func (c *rulesShowCmd) Run(a *app) error {
	_, err := fmt.Fprintln(a.Stdout, strings.TrimSpace(string(rule.Default())))
	return err
}
