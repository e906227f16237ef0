package notifications

import (
	"errors"
	"fmt"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/notifier/api"
	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger/postgres"
)

// userForgetCmd erases a user.
type userForgetCmd struct {
	ID               string `arg:"" help:"The user's id."`
	cli.Confirmation `embed:""`
	EvenIfUnknown    bool `name:"even-if-unknown" help:"Also erase a user of whom nothing is stored: later notifications are not sent."`
}

// Help is the long text.
func (c *userForgetCmd) Help() string {
	return `What is erased from PostgreSQL:
  state         its place takes a tombstone under a hash of the id: what comes later is NEVER with USER_ERASED.
  preferences   deleted.
  deferrals     deleted: what waits is not sent.
  decisions     their texts, fingerprints, facts, sender's errors and the user_id are blanked, 1,000 at a time.
                What was decided NOW and not handed over yet is not sent.
  event keys    the hash takes the place of the user_id.

What is not erased:
  queued messages   in RabbitMQ: workers decide each as it comes, and store nothing of its texts. Dispatches
                    that senders have not taken yet end with their expiry.
  dead letters      ` + "`keyfold notify dlq list --user ID`" + ` shows them, ` + "`keyfold notify dlq discard`" + ` deletes them.
  logs, backups, and what VACUUM has not freed yet in PostgreSQL: yours to clean.

One who can guess the id can compute its hash. There is no way back. It may be run again where it failed:
it goes on.

Examples:
  keyfold notify user forget anna --dry-run
  keyfold notify user forget anna`
}

func (c *userForgetCmd) Check(a *app.App) error {
	return errors.Join(api.CheckUser(c.ID), a.CheckConfirm(c.Confirmation), a.CheckLedger())
}

// forgottenUser is what is stored of a user before an erasure.
type forgottenUser struct {
	UserID    string `json:"user_id"`
	Erased    bool   `json:"erased"`        // it is now
	Before    bool   `json:"erased_before"` // it was before the run
	Decisions int64  `json:"decisions"`
	Deferrals int64  `json:"deferrals"`
	DryRun    bool   `json:"dry_run"`

	known bool
}

// Run looks at what there is and, once it is confirmed, erases it.
func (c *userForgetCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		found, err := c.look(a, l)
		if err != nil {
			return err
		}
		if !found.known && !c.EvenIfUnknown {
			return fmt.Errorf("user %s is not erased: nothing is stored of the user: is the id right? "+
				"--even-if-unknown erases the user all the same, and what comes later is not sent", cli.Printable(c.ID))
		}
		if !c.DryRun {
			if err := a.Confirm(c.Confirmation, found.question()); err != nil {
				return err
			}
			if err := l.Forget(a.Ctx, c.ID, engine.Now()); err != nil {
				return fmt.Errorf("user %s: run it again, it goes on: %w", cli.Printable(c.ID), err)
			}
			found.Erased = true
		}
		return a.Emit(found, func(w *cli.Text) { found.print(w, c.Confirmation) })
	})
}

// look counts what is stored. A user whose row cannot be read can be erased all the same.
func (c *userForgetCmd) look(a *app.App, l *postgres.Ledger) (*forgottenUser, error) {
	f := &forgottenUser{UserID: c.ID, DryRun: c.DryRun}
	standings, err := l.Load(a.Ctx, []notify.Ask{{User: c.ID, Deferrals: true}})
	if _, damaged := errors.AsType[*notify.UnreadableError](err); damaged {
		f.known = true
	} else if err != nil {
		return nil, err
	} else {
		s := &standings[0]
		f.known, f.Deferrals = s.Version > 0, int64(len(s.Deferred))
		f.Before = s.State != nil && s.State.Erased
		f.Erased = f.Before
	}
	if f.Decisions, err = l.CountRecords(a.Ctx, c.ID); err != nil {
		return nil, err
	}
	f.known = f.known || f.Decisions > 0
	return f, nil
}

func (f *forgottenUser) question() string {
	return fmt.Sprintf("Erase user %s (%s, %s)? There is no way back.", cli.Printable(f.UserID),
		cli.Count(f.Decisions, "decision"), cli.Count(f.Deferrals, "deferral"))
}

func (f *forgottenUser) print(w *cli.Text, c cli.Confirmation) {
	if f.Before && f.Decisions == 0 {
		w.Line("user %s was erased before", cli.Printable(f.UserID))
		return
	}
	w.Line("user %s: preferences, state, %s and the texts of %s %s", cli.Printable(f.UserID),
		cli.Count(f.Deferrals, "deferral"), cli.Count(f.Decisions, "decision"), c.Done("erased"))
	if !f.DryRun {
		w.Line("notifications for this user are not sent from now on")
	}
}
