package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"keyfold/cmd/users"
	"keyfold/engine"
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
	p, err := profileView(a.ctx, a, file, c.ID, c.Near, c.Events)
	if err != nil {
		return err
	}
	if p.Profile == nil {
		return fmt.Errorf("user %d has no profile in %s", c.ID, a.data)
	}
	return a.Emit(p.JSON(), p.Print)
}

// profileView reads a user's profile and what the inbox knows of the user.
func profileView(ctx context.Context, a *app, file *sqlite.Reader, user int32, near, last int) (*users.ProfileView, error) {
	events, err := lastEvents(ctx, a, file, user, last)
	if err != nil {
		return nil, err
	}
	return users.NewProfileView(ctx, file, user, near, events)
}

// lastEvents reads a user's last events, and those whose bodies the inbox does not
// keep from the posts.
func lastEvents(ctx context.Context, a *app, file *sqlite.Reader, user int32, last int) ([]users.Event, error) {
	stored, err := inbox.Last(ctx, file, user, last)
	if err != nil {
		return nil, err
	}
	var posts map[string]engine.Event
	if slices.ContainsFunc(stored, func(e inbox.StoredEvent) bool { return len(e.Body) == 0 }) {
		if posts, err = posted(ctx, a, user, stored[len(stored)-1].OccurredAt); err != nil {
			return nil, err
		}
	}
	events := make([]users.Event, len(stored))
	for i := range stored {
		event, err := stored[i].Event()
		if err != nil {
			return nil, err
		}
		if post, ok := posts[event.MessageID]; ok && len(stored[i].Body) == 0 {
			event = post
		}
		events[i] = users.Event{Event: event, State: stored[i].State.String()}
	}
	return events, nil
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
	return users.Export(c.File, a.Streams, file.AllProfiles(a.ctx))
}
