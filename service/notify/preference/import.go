package preference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/sink/ledger"
)

// User is a user with the user's own settings, as a line of a file has them.
type User struct {
	ID      string
	Own     notify.Preferences
	members map[string]json.RawMessage
}

// ParseUser reads {"user_id":"anna",...}, where the others are the members of preferences.
// The error is [Faults].
func ParseUser(line []byte) (u User, err error) {
	var faults Faults
	u.Own, u.members, err = Parse(line, "user_id")
	if u.members == nil {
		return u, err
	}
	errors.As(err, &faults)
	text, ok := u.members["user_id"]
	switch {
	case !ok:
		faults.add("user_id", "missing")
	case json.Unmarshal(text, &u.ID) != nil || CheckUser(u.ID) != nil:
		faults.add("user_id", "it must be a string of 1 to %d characters", notify.MaxUserRunes)
	}
	return u, faults.err()
}

// Replacing returns what takes the place of stored preferences.
func (u *User) Replacing(stored notify.Preferences) notify.Preferences {
	own, _ := Replacement(u.Own, u.members)(stored) // it has no error
	return own
}

// Imported counts what an import came to.
type Imported struct {
	Lines     int64 `json:"lines"`
	Stored    int64 `json:"stored"`    // of a dry run: that would be
	Unchanged int64 `json:"unchanged"` // they are stored already
	Erased    int64 `json:"erased"`    // of users who were erased: nothing is kept
	Refused   int64 `json:"refused"`   // lines at fault
}

// Import stores preferences of users.
type Import struct {
	Store  Store
	DryRun bool // nothing is written
	// Refuse is told of each line at fault.
	Refuse func(line int64, faults Faults)
}

// importAtOnce is how many users are written at once.
const importAtOnce = 32

// Run reads all lines. What is stored before an error stays so; to run it again changes
// nothing of it. Of a user's lines the last one counts.
func (i *Import) Run(ctx context.Context, in *cli.Input) (done Imported, err error) {
	var part []User
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return done, i.flush(ctx, part, &done)
		}
		if err != nil {
			return done, errors.Join(err, i.flush(ctx, part, &done))
		}
		done.Lines++
		u, err := ParseUser(line)
		if faults, ok := errors.AsType[Faults](err); ok {
			done.Refused++
			i.Refuse(in.Line, faults)
			continue
		}
		if len(part) == importAtOnce || contains(part, u.ID) {
			if err := i.flush(ctx, part, &done); err != nil {
				return done, err
			}
			part = part[:0]
		}
		part = append(part, u)
	}
}

func contains(part []User, id string) bool {
	for i := range part {
		if part[i].ID == id {
			return true
		}
	}
	return false
}

// flush stores users, each of whom is there once.
func (i *Import) flush(ctx context.Context, part []User, done *Imported) error {
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted")
	}
	counts := make([]*int64, len(part))
	faults := make([]error, len(part))
	var writes sync.WaitGroup
	for at := range part {
		writes.Go(func() { counts[at], faults[at] = i.store(ctx, &part[at], done) })
	}
	writes.Wait()
	for _, count := range counts {
		if count != nil {
			*count++
		}
	}
	return errors.Join(faults...)
}

// store stores one user and returns where that is counted.
func (i *Import) store(ctx context.Context, u *User, done *Imported) (*int64, error) {
	written := false
	replace := Replacement(u.Own, u.members)
	var store Store = counting{i.Store, &written}
	if i.DryRun {
		store = dry{i.Store, &written}
	}
	_, err := Change(ctx, store, u.ID, ledger.AnyVersion, replace)
	switch {
	case engine.ReasonOf(err) == ledger.ReasonUserErased:
		return &done.Erased, nil
	case err != nil:
		return nil, fmt.Errorf("user %s: %w", cli.Printable(u.ID), err)
	case written:
		return &done.Stored, nil
	}
	return &done.Unchanged, nil
}

// counting notes whether preferences were written.
type counting struct {
	Store
	written *bool
}

func (c counting) UpdatePreferences(ctx context.Context, user string, ifVersion int64, own notify.Preferences) (int64, error) {
	*c.written = true
	return c.Store.UpdatePreferences(ctx, user, ifVersion, own)
}

// dry writes nothing.
type dry struct {
	Reader
	written *bool
}

func (d dry) UpdatePreferences(_ context.Context, _ string, ifVersion int64, _ notify.Preferences) (int64, error) {
	*d.written = true
	return ifVersion + 1, nil
}

// Print prints the counts.
func (d *Imported) Print(w *cli.Text, dryRun bool) {
	verb := "stored"
	if dryRun {
		verb = "would be stored"
	}
	texts := []string{cli.Count(d.Lines, "line") + ": " + cli.Number(d.Stored) + " " + verb, cli.Number(d.Unchanged) + " unchanged"}
	if d.Erased > 0 {
		texts = append(texts, cli.Number(d.Erased)+" of erased users, which are not kept")
	}
	if d.Refused > 0 {
		texts = append(texts, cli.Number(d.Refused)+" refused")
	}
	w.Line("%s", strings.Join(texts, ", "))
}
