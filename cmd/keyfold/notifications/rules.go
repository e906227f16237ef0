package notifications

import (
	"errors"
	"fmt"
	"os"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/notifier/ruleset"
)

// rulesCmd looks after the sets of rules.
type rulesCmd struct {
	Lint     rulesLintCmd     `cmd:"" help:"Name every fault of a set of rules. Read-only."`
	Test     rulesTestCmd     `cmd:"" help:"Run the test cases that a set of rules brings along. Read-only."`
	Shadow   rulesShadowCmd   `cmd:"" uses:"ledger" help:"Have workers decide a second time by a candidate, without effect, and show what it comes to."`
	Publish  rulesPublishCmd  `cmd:"" uses:"ledger" help:"Put a set of rules into force in all workers."`
	Rollback rulesRollbackCmd `cmd:"" uses:"ledger" help:"Put the document of an earlier set into force again."`
	List     rulesListCmd     `cmd:"" uses:"ledger" help:"List the sets that were published. Read-only."`
	Show     rulesShowCmd     `cmd:"" uses:"ledger" help:"Print the document of a set. Read-only."`
	Diff     rulesDiffCmd     `cmd:"" uses:"ledger" help:"Show what differs between two sets. Read-only."`
}

// ruleFile is a set in a file.
type ruleFile struct {
	File string `arg:"" help:"The set: one JSON document."`
}

// Check refuses a file that cannot be read.
func (f *ruleFile) Check(*app.App) error {
	file, err := os.Open(f.File)
	if err != nil {
		return fmt.Errorf("the set of rules: %w", err)
	}
	return file.Close()
}

// rulesLintCmd checks a set.
type rulesLintCmd struct {
	ruleFile `embed:""`
}

// Help is the long text.
func (c *rulesLintCmd) Help() string {
	return `No server is asked. Exit code 1 when the set cannot be used.

Examples:
  keyfold notify rules show > rules.json     the set in force, to change it
  keyfold notify rules lint rules.json`
}

// Run prints every fault at once.
func (c *rulesLintCmd) Run(a *app.App) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	return errors.Join(a.Emit(found, found.Print), found.Err())
}

// rulesTestCmd runs a set's cases.
type rulesTestCmd struct {
	ruleFile `embed:""`
}

// Help is the long text.
func (c *rulesTestCmd) Help() string {
	return `Each case of the file is decided as a worker would. No server is asked. Exit code 1 when a case is
decided otherwise than it expects, or the set cannot be used.

Example:
  keyfold notify rules test rules.json`
}

// Run decides every case and prints those that fail.
func (c *rulesTestCmd) Run(a *app.App) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	found.Test()
	return errors.Join(a.Emit(found, found.Print), found.Err())
}
