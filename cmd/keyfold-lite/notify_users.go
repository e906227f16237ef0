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
	"unicode/utf8"

	"keyfold/cmd/cli"
	"keyfold/engine/notify"
	"keyfold/sink/ledger/sqlite"
)

// userPreferences are a user with the user's own settings.
type userPreferences struct {
	user string
	own  notify.Preferences
}

// preferenceFields are the members of preferences in JSON.
var preferenceFields = []string{"zone", "quiet", "muted", "channels", "caps"}

// parsePreferences reads preferences strictly: a misspelt field would have no effect.
func parsePreferences(text []byte, more ...string) (own notify.Preferences, members map[string]json.RawMessage, err error) {
	decode := json.NewDecoder(bytes.NewReader(text))
	if err := decode.Decode(&members); err != nil {
		return own, nil, fmt.Errorf("it must be a JSON object: %w", err)
	}
	if members == nil {
		return own, nil, errors.New("it must be a JSON object, found null: write {} for no preferences")
	}
	if decode.More() {
		return own, nil, errors.New("something follows the JSON object")
	}
	var faults []error
	known := slices.Concat(more, preferenceFields)
	for name := range members {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("%s: no such field; the fields are %s", cli.Printable(name), strings.Join(known, ", ")))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	// Each field by itself, so that all faults are named.
	for _, name := range preferenceFields {
		if value, ok := members[name]; ok {
			if err := checkShape(name, value); err != nil {
				faults = append(faults, err)
				continue
			}
			var part notify.Preferences
			object, err := json.Marshal(map[string]json.RawMessage{name: value})
			if err == nil {
				err = json.Unmarshal(object, &part)
			}
			if err != nil {
				for text := range strings.Lines(err.Error()) {
					faults = append(faults, fmt.Errorf("%s: %s", name, strings.TrimSuffix(text, "\n")))
				}
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return own, members, err
	}
	if err := json.Unmarshal(text, &own); err != nil {
		return own, members, err
	}
	return own, members, errors.Join(checkPreferences(&own)...)
}

// checkPreferences returns the faults of preferences whose types are right.
func checkPreferences(own *notify.Preferences) (faults []error) {
	if err := own.Quiet.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("quiet: %w", err))
	}
	// JSON's null and "" leave an entry as it is.
	if slices.Contains(own.Muted, 0) {
		faults = append(faults, errors.New("muted: found an entry without a name, expected names of types"))
	}
	if slices.Contains(own.Muted, notify.Security) {
		faults = append(faults, errors.New("muted: SECURITY cannot be muted: leave it out"))
	}
	if slices.Contains(own.Channels, 0) {
		faults = append(faults, errors.New("channels: found an entry without a name, expected names of channels"))
	}
	for i, limit := range own.Caps {
		if limit < 0 || limit > notify.MaxCap {
			faults = append(faults, fmt.Errorf("caps: entry %d is %d: it must be from 0 (the policy's) to %d", i+1, limit, notify.MaxCap))
		}
	}
	return faults
}

// checkShape refuses a member whose JSON is of another kind than its field.
func checkShape(name string, value json.RawMessage) error {
	var err error
	var shape string
	switch name {
	case "zone":
		shape, err = `a string such as "Europe/Berlin"`, json.Unmarshal(value, new(string))
	case "muted":
		shape, err = `a list such as ["PROMO"]`, json.Unmarshal(value, new([]string))
	case "channels":
		shape, err = `a list such as ["push","in_app"]`, json.Unmarshal(value, new([]string))
	case "caps":
		var caps []int
		shape, err = "a list of three integers, for 5 minutes, 1 hour and 24 hours, such as [2,4,10]", json.Unmarshal(value, &caps)
		if err == nil && caps != nil && len(caps) != len(notify.Windows) {
			err = errors.New("another number of caps")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: found %.60s, expected %s", name, cli.Printable(string(value)), shape)
	}
	return nil
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
	own, members, err := parsePreferences(line, "user_id")
	u.own = own
	if members == nil {
		return u, err
	}
	if text, ok := members["user_id"]; !ok {
		err = errors.Join(err, errors.New("user_id: missing"))
	} else if json.Unmarshal(text, &u.user) != nil || checkUser(u.user) != nil {
		err = errors.Join(err, fmt.Errorf("user_id: it must be a string of 1 to %d characters", notify.MaxUserRunes))
	}
	return u, err
}

// checkUser judges a user's id.
func checkUser(id string) error {
	if n := utf8.RuneCountInString(id); n < 1 || n > notify.MaxUserRunes || !utf8.ValidString(id) {
		return fmt.Errorf("a user id has 1 to %d characters", notify.MaxUserRunes)
	}
	return nil
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
