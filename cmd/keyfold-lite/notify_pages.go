package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"keyfold/cmd/decisions"
	"keyfold/engine/notify/rule"
	"keyfold/internal/version"
	"keyfold/service/dashboard"
	"keyfold/service/notify/ruleset"
	"keyfold/sink/ledger/sqlite"
)

// notifyPages returns the pages of notifications and of the set of rules.
func (n *notifyRuntime) pages(c *notifyServeCmd) (*dashboard.Dashboard, error) {
	rules, err := rulesOf(c.Rules, n.command())
	if err != nil {
		return nil, err
	}
	return dashboard.New(dashboard.Config{Path: pagesPath, Version: version.Read().Version}, dashboard.Sources{
		Notifications: pagesOver(n.app, n.ledger.Reader), Rules: rules,
	}, n.log.With("component", "dashboard"))
}

// pagesOver returns where pages of notifications are read.
func pagesOver(a *app, reader *sqlite.Reader) *dashboard.Notifications {
	shared := decisions.Pages{Command: a.command() + " notify", Open: func(context.Context) (decisions.PageLedger, error) { return reader, nil }}
	return shared.Notifications()
}

// rulesOf returns the page of the one set that this process decides by: that of a file, or the
// shipped one. There are no others to compare it with.
func rulesOf(file, command string) (*dashboard.Rules, error) {
	text, note := rule.Default(), "the shipped set"
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, err
		}
		note = filepath.Base(file)
	}
	sum := sha256.Sum256(text)
	one := ruleset.ListedOf(1, text, sum[:], time.Now(), "the start of this program", note)
	one.InForce = true
	return &dashboard.Rules{
		Program: command + " notify",
		Sets: func(context.Context, int) (*ruleset.List, error) {
			return &ruleset.List{Sets: []ruleset.Listed{one}}, nil
		},
		Set: func(_ context.Context, number int64) (*ruleset.Shown, error) {
			if number != one.Version {
				return nil, nil
			}
			return ruleset.ShownOf(one, text), nil
		},
	}, nil
}

// decisionsBeside returns the pages of the notifications that were decided in the data folder, and
// what closes their file; nil: none were.
func decisionsBeside(a *app) (*dashboard.Notifications, func() error, error) {
	nothing := func() error { return nil }
	if _, err := os.Stat(filepath.Join(a.data, ledgerName)); errors.Is(err, fs.ErrNotExist) {
		return nil, nothing, nil
	}
	reader, err := openDecisions(a)
	if err != nil {
		return nil, nothing, fmt.Errorf("the pages of notifications: %w", err)
	}
	return pagesOver(a, reader), reader.Close, nil
}
