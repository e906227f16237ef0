package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"keyfold/cmd/decisions"
	"keyfold/internal/cli"
	"keyfold/service/notify/preference"

	"keyfold/engine"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/sqlite"
	"keyfold/sink/sqlfile"
)

// ledgerName is the SQLite file of decisions inside the data folder.
const ledgerName = "notify.db"

// notifyCmd decides notifications: the second application.
type notifyCmd struct {
	Run     notifyRunCmd         `cmd:"" default:"withargs" help:"Decide a generated sample week, or the notifications of a file (default)."`
	Serve   notifyServeCmd       `cmd:"" help:"Decide notifications that are posted over HTTP."`
	Rules   notifyRulesCmd       `cmd:"" help:"Check, test and show sets of rules."`
	Explain notifyExplainCmd     `cmd:"" help:"Explain the decisions of a notification in words."`
	User    decisions.User[*app] `cmd:"" help:"Show and verify a user, set and import preferences, merge and erase users."`
}

// openDecisions opens the ledger of a data folder for reading, beside a running
// keyfold-lite.
func openDecisions(a *app) (*sqlite.Reader, error) {
	path := filepath.Join(a.data, ledgerName)
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("nothing was decided in %s yet: run `%s notify` first, or name its folder with --data", a.data, a.command())
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read by this user: %w", a.data, err)
	}
	return sqlite.OpenReader(path)
}

// Context implements [decisions.Program].
func (a *app) Context() context.Context { return a.ctx }

// NotifyTexts implements [decisions.Program].
func (*app) NotifyTexts() decisions.Texts {
	return decisions.Texts{Command: "keyfold-lite notify", Forget: `Preferences and what waits are deleted, and the texts and the user_id of decisions. The state's place takes a
tombstone under a hash of the id: what comes later is NEVER with USER_ERASED. The file is rewritten, so that
nothing of it can be read there. No other keyfold-lite may run on the folder.`}
}

// CheckLedger implements [decisions.Program]: the file needs no settings.
func (a *app) CheckLedger() error { return nil }

// ReadLedger implements [decisions.Program].
func (a *app) ReadLedger(do func(decisions.Ledger) error) error {
	file, err := openDecisions(a)
	if err != nil {
		return err
	}
	return errors.Join(do(file), file.Close())
}

// ChangePreferences implements [decisions.Program].
func (a *app) ChangePreferences(do func(preference.Store) error) error {
	return a.changeLedger(func(l *sqlite.Ledger) error { return do(l) })
}

// changeLedger opens the ledger to write, calls do, and closes it.
func (a *app) changeLedger(do func(*sqlite.Ledger) error) error {
	if err := os.MkdirAll(a.data, 0o750); err != nil {
		return err
	}
	file, err := sqlite.Open(filepath.Join(a.data, ledgerName))
	if err != nil {
		return err
	}
	return errors.Join(do(file), file.Close())
}

// ChangeUsers implements [decisions.Program].
func (a *app) ChangeUsers(do func(ledger.Merger) error) error {
	return a.changeLedger(func(l *sqlite.Ledger) error { return do(l) })
}

// ForgetUser implements [decisions.Program].
func (a *app) ForgetUser(user string) error {
	unlock, err := lockFolder(a.data)
	if err != nil {
		return err
	}
	defer unlock()
	path := filepath.Join(a.data, ledgerName)
	file, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Forget(a.ctx, user, engine.Now()), file.Close()); err != nil {
		return err
	}
	if err := sqlfile.Rewrite(a.ctx, path); err != nil {
		return fmt.Errorf("the user is erased, but what was deleted may still be read in the file: %w", err)
	}
	return nil
}

// UnknownUser implements [decisions.Program].
func (a *app) UnknownUser(user string) error {
	return fmt.Errorf("nothing is stored of user %s in %s", cli.Printable(user), a.data)
}
