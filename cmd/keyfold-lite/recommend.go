package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
	"keyfold/source/outbox"
	"keyfold/source/vector"
)

// recommendCmd recommends products to a user.
type recommendCmd struct {
	recommend.Flags `embed:""`
}

// Check judges the flags.
func (c *recommendCmd) Check(*app) error { return c.Options().Check() }

// Run prints the products.
func (c *recommendCmd) Run(a *app) error {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	answer, err := recommendTo(a.ctx, a, file, int32(c.ID), c.Options())
	if err != nil {
		return err
	}
	return a.Emit(answer, answer.Print)
}

// recommendTo reads the catalogue once, for one answer.
func recommendTo(ctx context.Context, a *app, file *sqlite.Reader, user int32, o recommend.Options) (*recommend.Answer, error) {
	config := recommend.DefaultConfig()
	config.PopularTTL = 0 // there is one request
	r, follower, err := newRecommender(a, file, config)
	if err == nil {
		err = follower.Read(ctx)
	}
	if err != nil {
		return nil, err
	}
	return r.ForUser(ctx, user, o)
}

// newRecommender returns a recommender on the data folder, and what reads its catalogue.
func newRecommender(a *app, file *sqlite.Reader, config recommend.Config) (*recommend.Recommender, *recommend.Follower, error) {
	laws := a.config.Processor.Config
	phrases, err := offlinePhrases(laws)
	if err != nil {
		return nil, nil, err
	}
	return recommend.Over(config, recommend.Ports{Profiles: file, History: userHistory{a, file}, Phrases: phrases, Laws: laws},
		file, a.log.With("component", "recommend"))
}

func offlinePhrases(laws profile.Config) (*vector.Phrases, error) {
	phrases, err := vector.OfflinePhrases(laws.Dimensions, profile.LearnedIn(laws.Model).Components)
	return phrases, settings.Named(&settings.Engine{}, nil, err)
}

// userHistory is what the inbox and the posts know of users. It implements [recommend.History].
type userHistory struct {
	app  *app
	file *sqlite.Reader
}

func (h userHistory) Events(ctx context.Context, user int32, p *profile.Profile) (events []explanation.Event, note string, err error) {
	stored, err := lastEvents(ctx, h.app, h.file, user, explanation.MostEvents)
	if err != nil {
		return nil, "", err
	}
	inside := []string{inbox.StateFolded.String(), inbox.StateDuplicate.String()}
	for _, e := range slices.Backward(stored) {
		state := e.State
		// A verdict may be stored after the profile that has the event.
		if slices.Contains(inside, state) || e.Waits && p.Has(e.Digest) {
			state = ""
		}
		events = append(events, explanation.Event{Event: e.Event, State: state})
	}
	if len(stored) == explanation.MostEvents {
		note = "only the newest 100,000 events are read: older ones are part of the remainder"
	}
	return events, note, nil
}

// Products has those of what was read from files and of what was posted.
func (h userHistory) Products(ctx context.Context, user int32, bought bool) ([]int32, error) {
	kind := recommend.TypeOf(bought)
	ids, err := inbox.ProductsOf(ctx, h.file, user, kind)
	if err != nil {
		return nil, err
	}
	return ids, h.ofPosts(func(db *outbox.Database) error {
		posted, err := db.ProductsOf(ctx, user, kind)
		ids = append(ids, posted...)
		return err
	})
}

// against lists the types of events that tell against a product.
func (h userHistory) against() []profile.EventType { return h.app.config.Processor.Weights.Against() }

// Counts adds up what was read from files and what was posted.
func (h userHistory) Counts(ctx context.Context, days int) (map[int32]int64, error) {
	counts, err := inbox.ProductCounts(ctx, h.file, days, h.against())
	if err != nil {
		return nil, err
	}
	return counts, h.ofPosts(func(db *outbox.Database) error {
		posts, err := db.ProductCounts(ctx, days, h.against())
		for id, events := range posts {
			counts[id] += events
		}
		return err
	})
}

// ofPosts reads the history of posts, where there is one.
func (h userHistory) ofPosts(read func(*outbox.Database) error) error {
	if _, err := os.Stat(filepath.Join(h.app.data, outboxName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := openOutbox(h.app)
	if err != nil {
		return err
	}
	return errors.Join(read(db), db.Close())
}
