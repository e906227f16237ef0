package main

import (
	"fmt"
	"strings"

	"keyfold/cmd/decisions"
	"keyfold/engine/notify/rule"
	"keyfold/service/notify/ruleset"
)

type notifyRulesCmd struct {
	Lint decisions.Lint[*app] `cmd:"" help:"Name every fault of a set of rules. Read-only."`
	Test decisions.Test[*app] `cmd:"" help:"Run the test cases that a set of rules brings along. Read-only."`
	Show rulesShowCmd         `cmd:"" help:"Print the shipped set of rules: a file to begin with."`

	Simulate rulesSimulateCmd `cmd:"" help:"Decide past notifications anew by a candidate, and show what would change. Read-only."`
}

// rulesSimulateCmd decides past notifications anew.
type rulesSimulateCmd struct {
	decisions.Simulation[*app] `embed:""`
	Local                      ruleset.Hours `embed:""`
}

// Check refuses faulty flags.
func (c *rulesSimulateCmd) Check(a *app) error { return c.CheckWith(a, &c.Local) }

// Run prints what would change.
func (c *rulesSimulateCmd) Run(a *app) error { return c.RunWith(a, &c.Local) }

// rulesShowCmd prints the shipped set.
type rulesShowCmd struct{}

// Run prints it as a file that can be changed.
func (c *rulesShowCmd) Run(a *app) error {
	_, err := fmt.Fprintln(a.Stdout, strings.TrimSpace(string(rule.Default())))
	return err
}
