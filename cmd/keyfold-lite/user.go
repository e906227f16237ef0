package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"keyfold/cmd/users"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
)

type userCmd struct {
	Show   showCmd   `cmd:"" help:"Show a user's profile, last events and nearest products."`
	Export exportCmd `cmd:"" help:"Write all profiles as NDJSON, fields named as in the document store."`
	Forget forgetCmd `cmd:"" help:"Erase a user: profile, stored events, dead letters; later events are dropped."`
}

// showCmd shows one user.
type showCmd struct {
	ID     int32 `arg:"" help:"The user's id."`
	Events int   `default:"10" help:"Number of last events."`
	Near   int   `default:"10" help:"Number of nearest products."`
}

// openFile opens the store of a data folder beside a running keyfold-lite.
func openFile(a *app) (*sqlite.Reader, error) {
	path := filepath.Join(a.data, databaseName)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("there are no profiles in %s yet: run keyfold-lite first, or name its folder with --data", a.data)
	}
	return sqlite.OpenReader(path)
}

// Run prints the user.
func (c *showCmd) Run(a *app) error {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	p, err := profileView(a.ctx, file, c.ID, c.Near, c.Events)
	if err != nil {
		return err
	}
	if p.Profile == nil {
		return fmt.Errorf("user %d has no profile in %s", c.ID, a.data)
	}
	return a.Emit(p.JSON(), p.Print)
}

// profileView reads a user's profile and what the inbox knows of the user.
func profileView(ctx context.Context, file *sqlite.Reader, user int32, near, last int) (*users.ProfileView, error) {
	stored, err := inbox.Last(ctx, file, user, last)
	if err != nil {
		return nil, err
	}
	events := make([]users.Event, len(stored))
	for i := range stored {
		if events[i].Event, err = stored[i].Event(); err != nil {
			return nil, err
		}
		events[i].State = stored[i].State.String()
	}
	return users.NewProfileView(ctx, file, user, near, events)
}

// exportCmd writes every profile.
type exportCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Output file; - for stdout."`
}

// Run writes the profiles, ordered by user_id.
func (c *exportCmd) Run(a *app) error {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	return users.Export(c.File, a.Stdout, file.AllProfiles(a.ctx))
}
