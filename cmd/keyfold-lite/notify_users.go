package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"keyfold/internal/cli"
	"keyfold/service/notify/preference"

	"keyfold/engine/notify"
	"keyfold/sink/ledger/sqlite"
)

// readUsers reads a file of preferences. Nothing is stored where a line is at fault.
func readUsers(path string, a *app) (all []preference.User, err error) {
	in, err := cli.OpenInput(path, a.Stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var faults []error
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		u, err := preference.ParseUser(line)
		if err != nil {
			for text := range strings.Lines(err.Error()) {
				faults = append(faults, fmt.Errorf("%s:%d: %s", in.Name, in.Line, strings.TrimSuffix(text, "\n")))
			}
		}
		all = append(all, u)
	}
	if len(faults) > 0 {
		return nil, &cli.UsageError{Err: fmt.Errorf("nothing was decided:\n%w", errors.Join(faults...))}
	}
	return all, nil
}

// storeUsers stores preferences that differ from those stored: each change raises
// the user's version. Those of erased users are not kept.
func storeUsers(ctx context.Context, ledger *sqlite.Ledger, all []preference.User) error {
	const atOnce = 500
	for part := range slices.Chunk(all, atOnce) {
		asks := make([]notify.Ask, len(part))
		for i := range part {
			asks[i].User = part[i].ID
		}
		standings, err := ledger.Load(ctx, asks)
		if err != nil {
			return fmt.Errorf("read preferences: %w", err)
		}
		faults := make([]error, len(part))
		var writes sync.WaitGroup // the writer takes many in one transaction
		for i := range part {
			// A user who was erased stays so, and does not end the run.
			stored := standings[i].Preferences
			own := part[i].Replacing(stored)
			if s := standings[i].State; s != nil && s.Erased || preference.Same(own, stored) {
				continue
			}
			writes.Go(func() { faults[i] = ledger.SetPreferences(ctx, part[i].ID, own) })
		}
		writes.Wait()
		if err := errors.Join(faults...); err != nil {
			return fmt.Errorf("store preferences: %w", err)
		}
	}
	return nil
}
