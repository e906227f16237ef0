package app

import (
	"context"
	"fmt"

	"keyfold/cmd/decisions"
	"keyfold/internal/cli"
	"keyfold/service/notify/preference"

	"keyfold/engine"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/postgres"
)

var _ decisions.Program = (*App)(nil)

// Context implements [decisions.Program].
func (a *App) Context() context.Context { return a.Ctx }

// NotifyTexts implements [decisions.Program].
func (*App) NotifyTexts() decisions.Texts {
	return decisions.Texts{Command: "keyfold notify", Forget: `What is erased from PostgreSQL:
  state         its place takes a tombstone under a hash of the id: what comes later is NEVER with USER_ERASED.
  preferences   deleted.
  deferrals     deleted: what waits is not sent.
  decisions     their texts, fingerprints, facts, sender's errors and the user_id are blanked, 1,000 at a time.
                What was decided NOW and not handed over yet is not sent.
  event keys    the hash takes the place of the user_id.

What is not erased:
  queued messages   in RabbitMQ: workers decide each as it comes, and store nothing of its texts. Dispatches
                    that senders have not taken yet end with their expiry.
  dead letters      ` + "`keyfold notify failed list --user ID`" + ` shows them, ` + "`keyfold notify failed remove`" + ` deletes them.
  logs, backups, and what VACUUM has not freed yet in PostgreSQL: yours to clean.`}
}

// ReadLedger implements [decisions.Program].
func (a *App) ReadLedger(do func(decisions.Ledger) error) error {
	return a.WithLedger(func(l *postgres.Ledger) error { return do(l) })
}

// ChangePreferences implements [decisions.Program].
func (a *App) ChangePreferences(do func(preference.Store) error) error {
	return a.WithLedger(func(l *postgres.Ledger) error { return do(l) })
}

// ForgetUser implements [decisions.Program].
func (a *App) ForgetUser(user string) error {
	return a.WithLedger(func(l *postgres.Ledger) error { return l.Forget(a.Ctx, user, engine.Now()) })
}

// ChangeUsers implements [decisions.Program].
func (a *App) ChangeUsers(do func(ledger.Merger) error) error {
	return a.WithLedger(func(l *postgres.Ledger) error { return do(l) })
}

// UnknownUser implements [decisions.Program].
func (*App) UnknownUser(user string) error {
	return fmt.Errorf("nothing is stored of user %s: is the id right? Events of the last seconds may still wait in a queue", cli.Printable(user))
}
