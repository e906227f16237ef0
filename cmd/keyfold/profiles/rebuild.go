package profiles

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"keyfold/cmd/cli"
	"keyfold/cmd/embedding"
	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/pipeline"
	"keyfold/engine"
	"keyfold/engine/taste"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
)

// rebuildCmd makes profiles anew from the stored history.
type rebuildCmd struct {
	ID     cli.UserID `arg:"" optional:"" help:"The user's id."`
	All    bool       `help:"All users with a history."`
	After  int32      `help:"With --all: resume after this user id."`
	DryRun bool       `help:"Only compare: print the cosine with the stored profile and the largest difference of a component."`
	Force  bool       `help:"Replace the profile even if the history has fewer events (at least one) than the profile counts: the profile loses the missing events."`
}

// Help is the long text.
func (c *rebuildCmd) Help() string {
	return `Recomputes profiles from DATABASE_URL exactly and replaces the stored ones under the version check,
while workers run: what they fold meanwhile is seen. Interactions that were never published are left to the relay.
It is also the cure for profiles made with another model, history or number of dimensions.

Examples:
  keyfold user rebuild 17 --dry-run
  keyfold user rebuild --all --after 120000`
}

func (c *rebuildCmd) Check(a *app.App) error {
	faults := []error{a.CheckDatabase(), a.CheckStore(), a.Vectors.Usable()}
	if c.All == (c.ID != 0) {
		faults = append(faults, errors.New("name a user's id, or --all"))
	}
	if c.After < 0 || c.After > 0 && !c.All {
		faults = append(faults, errors.New("--after goes with --all and takes the id of the last user that was rebuilt"))
	}
	return errors.Join(faults...)
}

// Run rebuilds one user or all.
func (c *rebuildCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		return a.WithStore(func(store *mongodb.Store) error {
			return a.WithEmbedding(a.Vectors, 0, func(way *embedding.Embedding) error {
				return c.rebuild(&rebuilder{App: a, cmd: c, db: db, store: store, done: rebuilt{Lowest: 1, DryRun: c.DryRun}}, way)
			})
		})
	})
}

func (c *rebuildCmd) rebuild(r *rebuilder, way *embedding.Embedding) error {
	ports, err := pipeline.Ports(r.Config.Taste, r.store, r.store)
	if err != nil {
		return err
	}
	ports.Phrases, ports.Log = patientPhrases{way, r.Log}, r.Log
	if r.taste, err = taste.New(r.Config.Taste, ports); err != nil {
		return err
	}
	if c.All {
		err = r.all()
	} else {
		err = r.one(int32(c.ID))
	}
	return errors.Join(err, r.Emit(r.done, func(w *cli.Text) { r.done.print(w, c.All) }))
}

// rebuilder is one run.
type rebuilder struct {
	*app.App
	cmd   *rebuildCmd
	db    *outbox.Database
	store *mongodb.Store
	taste *taste.Engine
	done  rebuilt
}

// all rebuilds every user of the history, also after one that is refused.
func (r *rebuilder) all() error {
	bar := r.Progress("rebuilding", 0, nil)
	defer bar.Done()
	n := 0
	for after := r.cmd.After; ; {
		users, err := r.db.Users(r.Ctx, after)
		if err != nil || len(users) == 0 {
			return err
		}
		for _, user := range users {
			if err := r.one(user); err != nil {
				return fmt.Errorf("%w (go on with --after %d)", err, after)
			}
			after = user
			n++
			bar.At(n)
		}
	}
}

// attempts is how often a user is read again because a worker was faster.
const attempts = 50

// one rebuilds a user.
func (r *rebuilder) one(user int32) error {
	for range attempts {
		err := r.try(user)
		if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknown) {
			r.done.Last = user
			return err
		}
	}
	return fmt.Errorf("user %d: workers wrote the profile again and again: try at a quieter time", user)
}

// try reads the profile first and the history after it: whatever the profile
// had folded by then is in the history read.
func (r *rebuilder) try(user int32) error {
	profiles, err := r.store.Load(r.Ctx, []int32{user})
	if err != nil {
		return err
	}
	old := profiles[0]
	history, lacking := r.history(user, old)
	next, err := r.taste.Rebuild(r.Ctx, user, old, history)
	if errors.Is(err, taste.ErrErased) {
		r.done.Skipped++
		return nil
	}
	if err != nil {
		return fmt.Errorf("user %d: %w", user, err)
	}
	if next.Profile == nil && old == nil {
		r.done.Skipped++
		return nil
	}
	if err := r.checkComplete(user, old, next, len(lacking)); err != nil {
		r.done.Refused++
		if !r.cmd.All {
			return err
		}
		r.Log.Warn("profile not rebuilt", slog.Any("error", err))
		return nil
	}
	same := r.compare(user, old, next.Profile)
	if same {
		r.done.Same++
		return nil
	}
	if !r.cmd.DryRun {
		if err := r.store.Swap(r.Ctx, []*engine.Profile{next.Profile})[0]; err != nil {
			return err
		}
	}
	r.done.Replaced++
	return nil
}

// checkComplete refuses a history that is shorter than the profile's, or that lacks what
// the profile is known to have folded, unless --force allows it. A history without
// events makes no profile, which --force cannot change.
func (r *rebuilder) checkComplete(user int32, old *engine.Profile, next taste.Rebuilt, lacking int) error {
	if next.Profile == nil {
		return fmt.Errorf("user %d: the history holds no event that a profile can be made from (%d have an unknown product, %d an unusable vector): "+
			"the stored profile stays as it is; interactions that still wait to be published count once the relay has sent them",
			user, next.Missing, next.Dead)
	}
	events := next.Profile.EventCount
	if old == nil || r.cmd.Force || events >= old.EventCount && lacking == 0 {
		return nil
	}
	return fmt.Errorf("user %d: the history makes %d events (%d more have an unknown product, %d an unusable vector), the profile counts %d, "+
		"of which the history lacks at least %d: was it cleaned up, or published past the database? --force replaces it all the same",
		user, events, next.Missing, next.Dead, old.EventCount, lacking)
}

// history yields the user's events that were published, and those the profile
// has folded though they are not marked yet. Of what was published lately, or by
// a program that does not say when, a copy is likely to be on its way.
//
// lacking holds what the profile has folded and the history did not yield so far.
func (r *rebuilder) history(user int32, old *engine.Profile) (all iter.Seq2[taste.HistoryEvent, error], lacking map[engine.AppliedID]bool) {
	folded, lacking := map[engine.AppliedID]bool{}, map[engine.AppliedID]bool{}
	if old != nil {
		for _, id := range old.Applied.IDs {
			folded[id], lacking[id] = true, true
		}
	}
	horizon := engine.Now() - engine.Millis(r.Config.Taste.IDs.Retention.Milliseconds())
	all = func(yield func(taste.HistoryEvent, error) bool) {
		for row, err := range r.db.History(r.Ctx, outbox.Filter{UserID: user}, outbox.Position{}) {
			if engine.KindOf(err) == engine.Permanent {
				r.Log.Warn("row of the history left out", slog.Int64("row", row.ID), slog.Any("error", err))
				continue
			}
			if err == nil && !row.Sent && !folded[row.Event.Digest.ID()] {
				continue
			}
			past := taste.HistoryEvent{Event: row.Event, InFlight: !row.Sent || row.SentAt == 0 && row.StoredAt >= horizon || row.SentAt >= horizon}
			delete(lacking, row.Event.Digest.ID())
			if !yield(past, err) || err != nil {
				return
			}
		}
	}
	return all, lacking
}
