package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // zones also where the system has none

	"keyfold/cmd/cli"
	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
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

// localSettings are the hours of users who have none of their own.
type localSettings struct {
	Zone    string `name:"zone" env:"NOTIFY_ZONE" default:"UTC" help:"Time zone of users who have none, such as Europe/Berlin."`
	Morning string `name:"morning" env:"NOTIFY_MORNING" default:"08:00" help:"Local time to which next_morning defers."`
	Digests string `name:"digest-times" env:"NOTIFY_DIGEST_TIMES" default:"09:00,18:00" help:"Local times of digests."`
}

// local reads the settings; the error names every fault.
func (s *localSettings) local() (l notify.Local, err error) {
	var faults engine.Faults
	l.Zone, err = quiet.LoadZone(s.Zone)
	faults.If(err != nil, "NOTIFY_ZONE is %q: %w", s.Zone, err)
	l.Morning, err = quiet.ParseClock(s.Morning)
	faults.If(err != nil, "NOTIFY_MORNING is %q: %w", s.Morning, err)
	for text := range strings.SplitSeq(s.Digests, ",") {
		clock, err := quiet.ParseClock(strings.TrimSpace(text))
		faults.If(err != nil, "NOTIFY_DIGEST_TIMES is %q: %w", s.Digests, err)
		faults.If(err == nil && len(l.Digests) > 0 && clock <= l.Digests[len(l.Digests)-1],
			"NOTIFY_DIGEST_TIMES is %q: each time must be later than the one before", s.Digests)
		l.Digests = append(l.Digests, clock)
	}
	return l, faults.Err()
}

// fixedSet is the set of a process that does not exchange it.
type fixedSet struct{ set *notify.Set }

// Current implements [notify.Sets].
func (f fixedSet) Current() *notify.Set { return f.set }

// readSet reads the rules of a file, the shipped ones without one.
func readSet(path string, local notify.Local) (*notify.Set, error) {
	text := rule.Default()
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	document, faults := rule.Read(text)
	if err := faults.Err(); err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("%s cannot be used: nothing was decided (`keyfold-lite notify rules lint` shows the same):\n%w", path, err)}
	}
	return rule.Compile(document, local), nil
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
