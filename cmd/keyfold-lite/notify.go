package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"keyfold/sink/ledger/sqlite"
)

// ledgerName is the SQLite file of decisions inside the data folder.
const ledgerName = "notify.db"

// notifyCmd decides notifications: the second application.
type notifyCmd struct {
	Run     notifyRunCmd     `cmd:"" default:"withargs" help:"Decide a generated sample week, or the notifications of a file (default)."`
	Serve   notifyServeCmd   `cmd:"" help:"Decide notifications that are posted over HTTP."`
	Rules   notifyRulesCmd   `cmd:"" help:"Check, test and show sets of rules."`
	Explain notifyExplainCmd `cmd:"" help:"Explain the decisions of a notification in words."`
	User    notifyUserCmd    `cmd:"" help:"Show a user's decisions, set preferences, erase a user."`
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
