package main

import (
	"fmt"
	"strings"

	"keyfold/cmd/notifier/ruleset"
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

// Run prints every fault at once.
func (c *lintCmd) Run(a *app) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	if err := a.Emit(found, found.Print); err != nil {
		return err
	}
	return found.Err()
}

// rulesTestCmd runs a set's cases.
type rulesTestCmd struct {
	File string `arg:"" help:"The set: one JSON document."`
}

// Run decides every case and prints those that fail.
func (c *rulesTestCmd) Run(a *app) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	found.Test()
	if err := a.Emit(found, found.Print); err != nil {
		return err
	}
	return found.Err()
}

// rulesShowCmd prints the shipped set.
type rulesShowCmd struct{}

// Run prints it as a file that can be changed.
func (c *rulesShowCmd) Run(a *app) error {
	_, err := fmt.Fprintln(a.Stdout, strings.TrimSpace(string(rule.Default())))
	return err
}
