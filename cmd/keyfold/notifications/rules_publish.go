package notifications

import (
	"cmp"
	"errors"
	"fmt"
	"os/user"

	"keyfold/cmd/decisions"
	"keyfold/cmd/keyfold/app"
	"keyfold/service/notify/published"
	"keyfold/service/notify/ruleset"

	"keyfold/engine"
	"keyfold/sink/ledger/postgres"
)

// rulesPublishCmd puts a set into force.
type rulesPublishCmd struct {
	decisions.RuleFile `embed:""`
	IfActive           int64  `name:"if-active" required:"" placeholder:"N" help:"The set that is in force now: nothing is published when it is another one."`
	Note               string `required:"" placeholder:"TEXT" help:"Why: it stands in the list."`
	By                 string `placeholder:"NAME" help:"Who publishes it; not set: the user of this command."`
}

// Help is the long text.
func (c *rulesPublishCmd) Help() string {
	return `The set is checked, its test cases are run, and it is compared with the set in force: a rule that changed has a
higher version, and no rule is left out (set "enabled" to false). With any fault nothing is published. Workers
and APIs that name no file in NOTIFY_RULES decide by it within 5 s; a call that has begun ends with the set before it.
Decisions name the set by its number. A published set is never changed.

Examples:
  keyfold notify rules list
  keyfold notify rules publish rules.json --if-active 41 --note "fewer promotions"`
}

func (c *rulesPublishCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.IfActive < 1, "--if-active is %d: give the number of the set in force: `keyfold notify rules list` shows it", c.IfActive)
	faults.If(c.Note == "", "--note is empty: say why the set is published")
	return errors.Join(c.CheckFile(), faults.Err(), a.CheckLedger())
}

// Run publishes, or prints what keeps the set from being published.
func (c *rulesPublishCmd) Run(a *app.App) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	if found.Test(); found.Document == nil {
		return errors.Join(a.Emit(found, found.Print), found.Err())
	}
	return a.WithLedger(func(l *postgres.Ledger) error {
		if err := published.Follows(a.Ctx, l, found, c.IfActive); err != nil {
			return err
		}
		if err := found.Err(); err != nil {
			return errors.Join(a.Emit(found, found.Print), err)
		}
		done, err := published.Publish(a.Ctx, l, found, postgres.Publication{By: cmp.Or(c.By, whoCalls()), Note: c.Note, IfActive: c.IfActive})
		if err != nil {
			return err
		}
		return a.Emit(done, done.Print)
	})
}

// whoCalls names the user of the command.
func whoCalls() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// rulesRollbackCmd puts an earlier document into force.
type rulesRollbackCmd struct {
	Set  int64  `arg:"" name:"set" help:"The number of the set whose document is wanted."`
	Note string `placeholder:"TEXT" help:"Why; not set: a note that names the set."`
	By   string `placeholder:"NAME" help:"Who rolls back; not set: the user of this command."`
}

// Help is the long text.
func (c *rulesRollbackCmd) Help() string {
	return `A rollback is a new set with the old document: numbers only rise, and decisions name the set that they were
made by. Test cases and versions of rules are not compared.

Examples:
  keyfold notify rules diff 41 42
  keyfold notify rules rollback 41`
}

func (c *rulesRollbackCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.Set < 1, "the set %d: numbers begin at 1: `keyfold notify rules list` shows them", c.Set)
	return errors.Join(faults.Err(), a.CheckLedger())
}

// Run publishes the document again.
func (c *rulesRollbackCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		back, err := published.PlanRollback(a.Ctx, l, c.Set)
		if err != nil {
			return err
		}
		done, err := back.Do(a.Ctx, l, cmp.Or(c.By, whoCalls()), c.Note)
		if _, other := errors.AsType[*postgres.NotActiveError](err); other {
			return fmt.Errorf("another set came into force meanwhile: look at `keyfold notify rules list`, and run it again if it is meant: %w", err)
		}
		if err != nil {
			return err
		}
		return a.Emit(done, done.Print)
	})
}
