package notifications

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/ledger/postgres"
)

// deferralsReleaseCmd makes deferrals due.
type deferralsReleaseCmd struct {
	IDs    []string `arg:"" optional:"" name:"id" help:"Ids of events that wait."`
	User   string   `placeholder:"ID" help:"All that wait of this user, in place of ids."`
	DryRun bool     `name:"dry-run" help:"Say how many would be released, and change nothing."`
	Yes    bool     `name:"yes" short:"y" help:"Release without asking; needed where there is no terminal to ask on."`

	events []uuid.UUID
}

// Help is the long text.
func (c *deferralsReleaseCmd) Help() string {
	return `Those released are decided by the rules and the state of the user at this moment: a cap or quiet hours
may defer them again, or end them. What is due already or is being decided stays as it is. Items of a
digest that are released leave it.

Examples:
  keyfold notify deferrals release 0198c4a2-6f00-7000-8000-000000000001
  keyfold notify deferrals release --user anna --dry-run
  keyfold notify deferrals release --user anna --yes`
}

var errAsksFirst = errors.New("this command asks first, and there is no terminal to ask on: " +
	"repeat it with --yes, or with --dry-run to see how many it would release")

func (c *deferralsReleaseCmd) Check(a *app.App) error {
	var faults engine.Faults
	for _, text := range c.IDs {
		id, err := uuid.Parse(text)
		faults.If(err != nil, "%q is no event_id: `keyfold notify deferrals list` shows those that wait", text)
		c.events = append(c.events, id)
	}
	faults.If((len(c.IDs) == 0) == (c.User == ""), "name events by their ids, or a user by --user")
	if a.CheckConfirm(c.confirmation()) != nil {
		faults.If(true, "%w", errAsksFirst)
	}
	return errors.Join(faults.Err(), a.CheckLedger())
}

func (c *deferralsReleaseCmd) confirmation() cli.Confirmation {
	return cli.Confirmation{DryRun: c.DryRun, Yes: c.Yes}
}

// Run releases. Ids of events that do not wait are told, after the others.
func (c *deferralsReleaseCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		user, err := person(a, l, c.User)
		if err != nil {
			return err
		}
		chosen := postgres.Waiting{Events: c.events, User: user}
		missing, err := c.missing(a, l)
		if err != nil {
			return err
		}
		now := engine.Now()
		n, err := l.CountReleasable(a.Ctx, now, chosen)
		if err != nil {
			return err
		}
		if !c.DryRun && n > 0 {
			if err := a.Confirm(c.confirmation(), fmt.Sprintf("Release %s? They are decided at once.", cli.Count(n, "deferral"))); err != nil {
				return err
			}
			if n, err = l.MakeDue(a.Ctx, engine.Now(), chosen); err != nil {
				return err
			}
		}
		return errors.Join(a.Emit(map[string]any{"released": n, "dry_run": c.DryRun}, func(w *cli.Text) {
			w.Line("%s %s", cli.Count(n, "deferral"), c.confirmation().Done("released"))
		}), missing)
	})
}

// missing names the ids of events that do not wait.
func (c *deferralsReleaseCmd) missing(a *app.App, l *postgres.Ledger) (missing, err error) {
	if len(c.events) == 0 {
		return nil, nil
	}
	found, err := l.Deferrals(a.Ctx, postgres.Waiting{Events: c.events}, len(c.events))
	if err != nil {
		return nil, err
	}
	var faults engine.Faults
	for _, id := range c.events {
		faults.If(!slices.ContainsFunc(found, func(d postgres.Deferral) bool { return d.Event.ID == id }),
			"event %s does not wait: `keyfold notify deferrals list` shows those that do", id)
	}
	return faults.Err(), nil
}
