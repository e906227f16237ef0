package decisions

import (
	"errors"
	"fmt"
	"os"

	"keyfold/service/notify/ruleset"
)

// RuleFile is a set of rules in a file.
type RuleFile struct {
	File string `arg:"" help:"The set: one JSON document."`
}

// CheckFile refuses a file that cannot be read.
func (f *RuleFile) CheckFile() error {
	file, err := os.Open(f.File)
	if err != nil {
		return fmt.Errorf("the set of rules: %w", err)
	}
	return file.Close()
}

// Lint checks a set.
type Lint[P Program] struct {
	RuleFile `embed:""`
}

// Help is the long text.
func (c *Lint[P]) Help() string {
	return fmt.Sprintf(`No server is asked. Exit code 1 when the set cannot be used.

Examples:
  %[1]s rules show > rules.json     a set to change
  %[1]s rules lint rules.json`, textsOf[P]().Command)
}

// Check refuses a file that cannot be read.
func (c *Lint[P]) Check(P) error { return c.CheckFile() }

// Run prints every fault at once.
func (c *Lint[P]) Run(p P) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	return errors.Join(p.Emit(found, found.Print), found.Err())
}

// Test runs a set's cases.
type Test[P Program] struct {
	RuleFile `embed:""`
}

// Help is the long text.
func (c *Test[P]) Help() string {
	return fmt.Sprintf(`Each case of the file is decided as a worker would. No server is asked. Exit code 1 when a case is
decided otherwise than it expects, or the set cannot be used.

Example:
  %s rules test rules.json`, textsOf[P]().Command)
}

// Check refuses a file that cannot be read.
func (c *Test[P]) Check(P) error { return c.CheckFile() }

// Run decides every case and prints those that fail.
func (c *Test[P]) Run(p P) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	found.Test()
	return errors.Join(p.Emit(found, found.Print), found.Err())
}
