package notifications

import (
	"errors"
	"fmt"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/service/notify/published"
	"keyfold/sink/ledger/postgres"
)

// rulesListCmd lists sets.
type rulesListCmd struct {
	Limit int `default:"20" help:"At most so many, newest first."`
}

// Help is the long text.
func (c *rulesListCmd) Help() string {
	return `Examples:
  keyfold notify rules list
  keyfold notify rules list --limit 200 -o json`
}

func (c *rulesListCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.Limit < 1, "--limit must be at least 1")
	return errors.Join(faults.Err(), a.CheckLedger())
}

// Run prints the sets.
func (c *rulesListCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		sets, err := published.List(a.Ctx, l, c.Limit)
		if err != nil {
			return err
		}
		return a.Emit(sets, func(w *cli.Text) {
			if sets.Print(w); len(sets.Sets) == 0 {
				w.Line("no set of rules is published: run `keyfold notify setup`")
			}
		})
	})
}

// rulesShowCmd prints a set.
type rulesShowCmd struct {
	Set int64 `arg:"" optional:"" name:"set" help:"The number of the set; none: the one in force."`
}

// Help is the long text.
func (c *rulesShowCmd) Help() string {
	return `The document is printed as it was published: a file to change.

Examples:
  keyfold notify rules show > rules.json
  keyfold notify rules show 41`
}

func (c *rulesShowCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.Set < 0, "the set %d: numbers begin at 1: `keyfold notify rules list` shows them", c.Set)
	return errors.Join(faults.Err(), a.CheckLedger())
}

// Run prints the document.
func (c *rulesShowCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		set, err := published.Set(a.Ctx, l, c.Set)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.Stdout, strings.TrimSpace(string(set.Document)))
		return err
	})
}
