package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/profile/users"

	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
)

type userCmd struct {
	Show    showCmd    `cmd:"" help:"Show a user's profile, last events and nearest products."`
	Explain explainCmd `cmd:"" uses:"profiles,folding" help:"Show which events a profile is made of, and which put each product there."`
	Export  exportCmd  `cmd:"" help:"Write all profiles as NDJSON, fields named as in the document store."`
	Forget  forgetCmd  `cmd:"" help:"Erase a user: profile, stored events, dead events; later events are dropped."`
}

// showCmd shows one user.
type showCmd struct {
	ID     cli.UserID `arg:"" help:"The user's id."`
	Events int        `default:"10" help:"Number of last events."`
	Near   int        `default:"10" help:"Number of nearest products."`
	Mix    float64    `default:"0" placeholder:"SHARE" help:"Nearest to a mix: this share of the second vector (EMBEDDING_SHORT_HALF_LIFE), the rest of the first."`
}

func (c *showCmd) Check(*app) error { return errors.Join(cli.CheckNear(c.Near), cli.CheckMix(c.Mix)) }

// openFile opens the store of a data folder beside a running keyfold-lite.
func openFile(a *app) (*sqlite.Reader, error) {
	path := filepath.Join(a.data, databaseName)
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there are no profiles in %s yet: run keyfold-lite first, or name its folder with --data", a.data)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read by this user: %w", a.data, err)
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
	p, err := profileView(a.ctx, a, file, int32(c.ID), c.Near, c.Mix, c.Events)
	if err != nil {
		return err
	}
	if p.Profile == nil {
		return noProfile(a, file, int32(c.ID))
	}
	return a.Emit(p.JSON(), p.Print)
}

// noProfile says why a user has none.
func noProfile(a *app, file *sqlite.Reader, user int32) error {
	// The posts are read first: those that are relayed meanwhile are in the inbox.
	waiting, err := posted(a.ctx, a, user, 0)
	if err != nil {
		return err
	}
	stored, err := inbox.Last(a.ctx, file, user, math.MaxInt32)
	if err != nil {
		return err
	}
	pending, skipped := int64(0), int64(0)
	for i := range stored {
		delete(waiting, stored[i].MessageID)
		switch stored[i].State {
		case inbox.StatePending:
			pending++
		case inbox.StateProductMissing:
			skipped++
		}
	}
	pending += int64(len(waiting))
	switch windows := a.config.Shard; {
	case pending == 1:
		return fmt.Errorf("user %d has no profile yet: 1 event waits for its window (%g s)", user, windows.Window.Seconds())
	case pending > 1:
		return fmt.Errorf("user %d has no profile yet: %s wait for their window (%g s after the last of them, %g s at most)",
			user, cli.Count(pending, "event"), windows.Window.Seconds(), windows.MaxDelay.Seconds())
	case skipped > 0:
		return fmt.Errorf("user %d has no profile: %s skipped because the product was unknown; "+
			"import the products and fold them: %s rebuild --products PRODUCTS.ndjson", user, cli.Count(skipped, "event"), a.command())
	default:
		return fmt.Errorf("user %d has no profile in %s: no event of this user was folded", user, a.data)
	}
}

// profileView reads a user's profile and what the inbox knows of the user.
func profileView(ctx context.Context, a *app, file *sqlite.Reader, user int32, near int, mix float64, last int) (*users.ProfileView, error) {
	events, err := lastEvents(ctx, a, file, user, last)
	if err != nil {
		return nil, err
	}
	return users.NewProfileView(ctx, file, user, near, mix, events)
}

// lastEvents reads a user's last events, and those whose bodies the inbox does not
// keep from the posts.
func lastEvents(ctx context.Context, a *app, file *sqlite.Reader, user int32, last int) ([]users.Event, error) {
	stored, err := inbox.Last(ctx, file, user, last)
	if err != nil {
		return nil, err
	}
	var posts map[string]profile.Event
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
		events[i] = users.Event{Event: event, State: stored[i].State.String(), Waits: stored[i].State == inbox.StatePending, Since: stored[i].ReceivedAt}
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
	count, err := file.CountProfiles(a.ctx)
	if err != nil {
		return err
	}
	if count == 0 {
		return fmt.Errorf("there are no profiles in %s yet: nothing was exported", a.data)
	}
	return users.Export(c.File, a.Streams, file.AllProfiles(a.ctx))
}
