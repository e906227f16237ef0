package decisions

import (
	"context"
	"errors"
	"fmt"

	"keyfold/internal/cli"
	"keyfold/service/notify/preference"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// forget erases a user.
type forget[P Program] struct {
	ID               string `arg:"" help:"The user's id."`
	cli.Confirmation `embed:""`
	EvenIfUnknown    bool `name:"even-if-unknown" help:"Also erase a user of whom nothing is stored: later notifications are not sent."`
}

// Help is the long text.
func (c *forget[P]) Help() string {
	t := textsOf[P]()
	return fmt.Sprintf(`%s

One who can guess the id can compute its hash. There is no way back. It may be run again where it failed:
it goes on.

Examples:
  %[2]s user forget anna --dry-run
  %[2]s user forget anna`, t.Forget, t.Command)
}

func (c *forget[P]) Check(p P) error {
	return errors.Join(preference.CheckUser(c.ID), p.CheckConfirm(c.Confirmation), p.CheckLedger())
}

// forgottenUser is what is stored of a user before an erasure.
type forgottenUser struct {
	UserID    string `json:"user_id"`
	Erased    bool   `json:"erased"`        // it is now
	Before    bool   `json:"erased_before"` // it was before the run
	Decisions int64  `json:"decisions"`
	Deferrals int64  `json:"deferrals"`
	Aliases   int    `json:"aliases"` // ids that are erased with it
	DryRun    bool   `json:"dry_run"`

	known bool
}

// Run looks at what there is and, once it is confirmed, erases it.
func (c *forget[P]) Run(p P) error {
	found := &forgottenUser{UserID: c.ID, DryRun: c.DryRun}
	if err := p.ReadLedger(func(l Ledger) error { return found.look(p.Context(), l) }); err != nil {
		return err
	}
	if !found.known && !c.EvenIfUnknown {
		return fmt.Errorf("user %s is not erased: nothing is stored of the user: is the id right? "+
			"--even-if-unknown erases the user all the same, and what comes later is not sent", cli.Printable(c.ID))
	}
	if !c.DryRun {
		if err := p.Confirm(c.Confirmation, found.question()); err != nil {
			return err
		}
		if err := p.ForgetUser(c.ID); err != nil {
			return fmt.Errorf("user %s: run it again, it goes on: %w", cli.Printable(c.ID), err)
		}
		found.Erased = true
	}
	return p.Emit(found, func(w *cli.Text) { found.print(w, c.Confirmation) })
}

// look counts what is stored. A user whose row cannot be read can be erased all the same.
func (f *forgottenUser) look(ctx context.Context, l Ledger) (err error) {
	if f.UserID, err = ledger.Person(ctx, l, f.UserID); err != nil {
		return err
	}
	aliases, err := l.Aliases(ctx, f.UserID)
	if err != nil {
		return err
	}
	f.Aliases = len(aliases)
	standings, err := l.Load(ctx, []notify.Ask{{User: f.UserID, Deferrals: true}})
	if _, damaged := errors.AsType[*notify.UnreadableError](err); damaged {
		f.known = true
	} else if err != nil {
		return err
	} else {
		s := &standings[0]
		f.known, f.Deferrals = s.Version > 0, int64(len(s.Deferred))
		f.Before = s.State != nil && s.State.Erased
		f.Erased = f.Before
	}
	f.Decisions, err = l.CountRecords(ctx, f.UserID)
	f.known = f.known || f.Decisions > 0
	return err
}

func (f *forgottenUser) question() string {
	with := ""
	if f.Aliases > 0 {
		with = " with " + aliasCount(f.Aliases)
	}
	return fmt.Sprintf("Erase user %s%s (%s, %s)? There is no way back.", cli.Printable(f.UserID), with,
		cli.Count(f.Decisions, "decision"), cli.Count(f.Deferrals, "deferral"))
}

func aliasCount(n int) string {
	if n == 1 {
		return "1 alias"
	}
	return cli.Number(int64(n)) + " aliases"
}

func (f *forgottenUser) print(w *cli.Text, c cli.Confirmation) {
	if f.Before && f.Decisions == 0 {
		w.Line("user %s was erased before", cli.Printable(f.UserID))
		return
	}
	w.Line("user %s: preferences, state, %s and the texts of %s %s", cli.Printable(f.UserID),
		cli.Count(f.Deferrals, "deferral"), cli.Count(f.Decisions, "decision"), c.Done("erased"))
	if f.Aliases > 0 {
		w.Line("  and %s", aliasCount(f.Aliases))
	}
	if !f.DryRun {
		w.Line("notifications for this user are not sent from now on")
	}
}
