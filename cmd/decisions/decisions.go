// Package decisions has the notify commands that both programs have: those about a set
// of rules in a file, users, and past decisions. Each program brings its ledger.
package decisions

import (
	"context"

	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/service/notify/preference"
	"keyfold/service/notify/simulate"
	"keyfold/service/notify/users"
	"keyfold/sink/ledger"
)

// Program is what a program's commands work with.
type Program interface {
	Emit(value any, text func(w *cli.Text)) error
	Progress(what string, total int64, done func() int64) *cli.Progress
	CheckConfirm(f cli.Confirmation) error
	Confirm(f cli.Confirmation, question string) error

	// Context ends when the program is told to stop.
	Context() context.Context
	// NotifyTexts are asked of a nil Program too.
	NotifyTexts() Texts
	// CheckLedger judges the settings of the ledger.
	CheckLedger() error
	// ReadLedger opens the ledger, calls do with it, and closes it.
	ReadLedger(do func(Ledger) error) error
	// OpenInput opens a file, or standard input for "-".
	OpenInput(path string) (*cli.Input, error)
	// Tell writes a line to standard error.
	Tell(format string, args ...any)
	// ChangePreferences opens the ledger to change preferences, calls do, and closes it.
	ChangePreferences(do func(preference.Store) error) error
	// ForgetUser erases a user of notifications.
	ForgetUser(user string) error
	// ChangeUsers opens the ledger to merge users, calls do, and closes it.
	ChangeUsers(do func(ledger.Merger) error) error
	// UnknownUser is the error of a user of whom nothing is stored.
	UnknownUser(user string) error
}

// Ledger is what the commands read.
type Ledger interface {
	users.Reader
	simulate.Store
	// CountRecords returns how many records a user has.
	CountRecords(ctx context.Context, user string) (int64, error)
	// OldestDay returns the start of the first day (UTC) whose records are kept.
	OldestDay(ctx context.Context) (engine.Millis, error)
}

// Texts are what help texts say of a program.
type Texts struct {
	Command string // that has the commands
	Forget  string // what an erasure erases
}

func textsOf[P Program]() Texts {
	var none P
	return none.NotifyTexts()
}
