package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"keyfold/internal/cli"
	"keyfold/service/notify/api"

	"keyfold/engine/notify"
	"keyfold/sink/ledger/sqlite"
)

// userPreferences are a user with the user's own settings.
type userPreferences struct {
	user string
	own  notify.Preferences
}

// readUsers reads a file of preferences. Nothing is stored where a line is at fault.
func readUsers(path string, a *app) (all []userPreferences, err error) {
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
		u, err := readUser(line)
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

func readUser(line []byte) (u userPreferences, err error) {
	own, members, err := api.ParsePreferences(line, "user_id")
	u.own = own
	if members == nil {
		return u, err
	}
	if text, ok := members["user_id"]; !ok {
		err = errors.Join(err, errors.New("user_id: missing"))
	} else if json.Unmarshal(text, &u.user) != nil || api.CheckUser(u.user) != nil {
		err = errors.Join(err, fmt.Errorf("user_id: it must be a string of 1 to %d characters", notify.MaxUserRunes))
	}
	return u, err
}

// storeUsers stores preferences that differ from those stored: each change raises
// the user's version. Those of erased users are not kept.
func storeUsers(ctx context.Context, ledger *sqlite.Ledger, all []userPreferences) error {
	const atOnce = 500
	for part := range slices.Chunk(all, atOnce) {
		asks := make([]notify.Ask, len(part))
		for i := range part {
			asks[i].User = part[i].user
		}
		standings, err := ledger.Load(ctx, asks)
		if err != nil {
			return fmt.Errorf("read preferences: %w", err)
		}
		faults := make([]error, len(part))
		var writes sync.WaitGroup // the writer takes many in one transaction
		for i := range part {
			// A user who was erased stays so, and does not end the run.
			if s := standings[i].State; s != nil && s.Erased || samePreferences(standings[i].Preferences, part[i].own) {
				continue
			}
			writes.Go(func() { faults[i] = ledger.SetPreferences(ctx, part[i].user, part[i].own) })
		}
		writes.Wait()
		if err := errors.Join(faults...); err != nil {
			return fmt.Errorf("store preferences: %w", err)
		}
	}
	return nil
}

func samePreferences(a, b notify.Preferences) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
