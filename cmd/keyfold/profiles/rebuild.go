package profiles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/cli"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/pipeline"

	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/stream/reader"
)

// rebuildCmd makes profiles anew from the stored history.
type rebuildCmd struct {
	ID     cli.UserID `arg:"" optional:"" help:"The user's id."`
	All    bool       `help:"All users with a history."`
	After  cli.UserID `placeholder:"ID" help:"With --all: resume after this user id."`
	DryRun bool       `help:"Only compare: print the cosine with the stored profile and the largest difference of a component."`
	Force  bool       `help:"Replace the profile even if the history has fewer events (at least one) than the profile counts: the profile loses the missing events."`
}

// Help is the long text.
func (c *rebuildCmd) Help() string {
	return `Recomputes profiles from DATABASE_URL exactly and replaces the stored ones under the version check,
while workers run: what they fold meanwhile is seen. Interactions that were never published are left to the relay.
It is also the cure for profiles made with another model, history or number of dimensions. What keyfold history
prune has deleted is not in the history. With RABBITMQ_STREAMS as the workers have it, the streams are read too, from
the workers' positions on: what they still bring counts once. The exit code is 1 where the user that is named could not be
rebuilt, or one of --all, which goes on with the others.

Examples:
  keyfold user rebuild 17 --dry-run
  keyfold user rebuild --all --after 120000`
}

func (c *rebuildCmd) Check(a *app.App) error {
	faults := []error{a.CheckDatabase(), a.CheckStore(), a.Vectors.Usable()}
	if a.Queues.Streams > 0 {
		faults = append(faults, a.CheckBroker())
	}
	if c.All == (c.ID != 0) {
		faults = append(faults, errors.New("name a user's id, or --all"))
	}
	if c.After > 0 && !c.All {
		faults = append(faults, errors.New("--after goes with --all and takes the id of the last user that was rebuilt"))
	}
	return errors.Join(faults...)
}

// Run rebuilds one user or all.
func (c *rebuildCmd) Run(a *app.App) error {
	_, err := c.run(a)
	return err
}

// run returns what was done, which it has printed.
func (c *rebuildCmd) run(a *app.App) (done rebuilt, err error) {
	err = a.WithDatabase(func(db *outbox.Database) error {
		return a.WithStore(func(store *mongodb.Store) error {
			return a.WithEmbedding(a.Vectors, 0, func(way *embedding.Embedding) error {
				r := &rebuilder{App: a, cmd: c, db: db, store: store, done: rebuilt{Lowest: 1, DryRun: c.DryRun}}
				err := c.rebuild(r, way)
				done = r.done
				return err
			})
		})
	})
	return done, err
}

func (c *rebuildCmd) rebuild(r *rebuilder, way *embedding.Embedding) error {
	ports, err := pipeline.Ports(r.Config.Processor, r.store, r.store)
	if err != nil {
		return err
	}
	ports.Phrases, ports.Log = patientPhrases{way, r.Log}, r.Log
	if r.Queues.Streams > 0 {
		ports.Streamed = func(ctx context.Context, user int32) (profile.Streamed, error) { return r.tail.Of(ctx, user) }
	}
	if r.taste, err = processor.New(r.Config.Processor, ports); err != nil {
		return err
	}
	if c.All {
		err = r.all()
	} else {
		err = r.page([]int32{int32(c.ID)}, func() error { return r.one(int32(c.ID)) })
	}
	return errors.Join(err, r.Emit(r.done, func(w *cli.Text) { r.done.print(w, c.All) }))
}

// rebuilder is one run.
type rebuilder struct {
	*app.App
	cmd   *rebuildCmd
	db    *outbox.Database
	store *mongodb.Store
	taste *processor.Engine
	tail  *reader.Tail // of the users of a page; nil without streams
	told  bool         // that there are marks of streams, and no streams
	done  rebuilt
}

// all rebuilds every user of the history, also after one that is refused or faulty.
func (r *rebuilder) all() error {
	bar := r.Progress("rebuilding", 0, nil)
	defer bar.Done()
	n := 0
	for after := int32(r.cmd.After); ; {
		users, err := r.db.Users(r.Ctx, after)
		if err != nil || len(users) == 0 {
			return errors.Join(err, r.faulty())
		}
		err = r.page(users, func() error {
			for _, user := range users {
				if err := r.one(user); usersOwn(err) {
					r.done.Failed++
					r.notRebuilt(user, err)
				} else if err != nil {
					return err
				}
				after = user
				n++
				bar.At(n)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w%s", errors.Join(err, r.faulty()), goOn(after))
		}
	}
}

// page has users rebuilt, in the order of their ids, while what streams have of them is read.
func (r *rebuilder) page(users []int32, rebuild func() error) (err error) {
	if r.Queues.Streams == 0 {
		return rebuild()
	}
	config := reader.Config{Client: r.StreamsClient(), Names: rabbit.DefaultNames()}
	if r.tail, err = reader.OpenTail(r.Ctx, config, r.store, r.Log, users[0], users[len(users)-1]); err != nil {
		return app.BrokerUnreached(err)
	}
	defer r.tail.Close(r.Ctx)
	return rebuild()
}

// usersOwn reports whether an error is of one user: the next one may be rebuilt.
func usersOwn(err error) bool {
	_, unreadable := errors.AsType[*engine.UnreadableError](err)
	return unreadable || errors.Is(err, errBusy) || engine.KindOf(err) == engine.Permanent
}

// faulty says that users could not be rebuilt.
func (r *rebuilder) faulty() error {
	if r.done.Failed == 0 {
		return nil
	}
	return fmt.Errorf("%s could not be rebuilt: the log names each with its fault", cli.Count(int64(r.done.Failed), "user"))
}

func (r *rebuilder) notRebuilt(user int32, err error) {
	r.Log.Warn("profile not rebuilt", slog.Int("user_id", int(user)), slog.Any("error", err),
		slog.String("hint", "do what the error says, then rebuild this user"))
}

// goOn says how the same command skips the users that are done.
func goOn(after int32) string {
	if after == 0 {
		return ""
	}
	return fmt.Sprintf(" (go on with --after %d)", after)
}

// attempts is how often a user is read again because a worker was faster.
const attempts = 50

var errBusy = errors.New("workers wrote the profile again and again: try at a quieter time")

// one rebuilds a user.
func (r *rebuilder) one(user int32) error {
	for range attempts {
		err := r.try(user)
		if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknown) {
			r.done.Last = user
			return err
		}
	}
	return fmt.Errorf("user %d: %w", user, errBusy)
}

// try reads the profile first and the history after it: whatever the profile
// had folded by then is in the history read.
func (r *rebuilder) try(user int32) error {
	profiles, err := r.store.Load(r.Ctx, []int32{user})
	if err != nil {
		return err
	}
	old := profiles[0]
	if old != nil && len(old.Marks) > 0 && r.Queues.Streams == 0 && !r.told {
		r.told = true
		r.Log.Warn("profiles have marks of streams, and RABBITMQ_STREAMS is 0: events that workers are still to read there may count twice",
			slog.String("hint", "give the command the RABBITMQ_STREAMS of the workers, unless no worker reads streams any more"))
	}
	past := r.history(user, old)
	next, err := r.taste.Rebuild(r.Ctx, user, old, past.all)
	switch {
	case errors.Is(err, processor.ErrErased):
		return r.skip(fmt.Errorf("user %d was erased at %s: an erased user is not rebuilt", user, cli.At(old.ErasedAt.Time())))
	case err != nil:
		return fmt.Errorf("user %d: %w", user, err)
	case next.Profile == nil && old == nil:
		return r.skip(past.empty(user, next))
	}
	if err := r.checkComplete(user, old, next, past); err != nil {
		r.done.Refused++
		if !r.cmd.All {
			return err
		}
		r.notRebuilt(user, err)
		return nil
	}
	if r.compare(user, old, next.Profile) && old.Applied.Floor != profile.Undated {
		r.done.Same++
		return nil
	}
	if !r.cmd.DryRun {
		if err := r.taste.Replace(r.Ctx, next.Profile); err != nil {
			return err
		}
	}
	r.done.Replaced++
	if old != nil && old.Short.Vector != nil && next.Profile.DropShort {
		r.done.Dropped++
	}
	return nil
}

// skip counts a user without a profile to replace. Of the one that is named the caller
// learns why.
func (r *rebuilder) skip(why error) error {
	r.done.Skipped++
	if r.cmd.All {
		return nil
	}
	return why
}

// checkComplete refuses a history that is shorter than the profile's, without what waits in
// streams, or that lacks what the profile is known to have folded, unless --force allows it. A
// history without events makes no profile, which --force cannot change.
func (r *rebuilder) checkComplete(user int32, old *profile.Profile, next processor.Rebuilt, past *history) error {
	if next.Profile == nil {
		return fmt.Errorf("%w: the stored profile stays as it is", past.empty(user, next))
	}
	events := next.Profile.EventCount
	if old == nil || r.cmd.Force || events-next.Unread >= old.EventCount && len(past.lacking) == 0 {
		return nil
	}
	unread := ""
	if next.Unread > 0 {
		unread = fmt.Sprintf(", %d of which wait in streams", next.Unread)
	}
	return fmt.Errorf("user %d: the history makes %s%s (%d more have an unknown product, %d an unusable vector), the profile counts %d, "+
		"of which the history lacks at least %d: was it pruned, or published past the database? --force replaces it all the same",
		user, cli.Count(events, "event"), unread, next.Missing, next.Dead, old.EventCount, max(int64(len(past.lacking)), old.EventCount-events+next.Unread))
}
