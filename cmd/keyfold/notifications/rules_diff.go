package notifications

import (
	"errors"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/service/notify/published"
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
		d, err := published.Diff(a.Ctx, l, c.A, c.B)
		if err != nil {
			return err
		}
		return a.Emit(d, d.Print)
	})
}
