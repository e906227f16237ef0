package profiles

import (
	"errors"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/failures"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/profile/users"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
)

// forgetCmd erases a user.
type forgetCmd struct {
	ID               cli.UserID `arg:"" help:"The user's id."`
	cli.Confirmation `embed:""`
	EvenIfUnknown    bool `name:"even-if-unknown" help:"Also erase a user of whom nothing is stored: later events are dropped."`
}

// Help is the long text.
func (c *forgetCmd) Help() string {
	return `What is erased, in this order:
  profile              its place takes a tombstone of user_id, version and erased_at, which has
                       workers drop the user's events, whatever their time.
  stored interactions  the user's rows in DATABASE_URL, if that is set. An SQLite file is
                       written anew, so that it has no copy.
  archived letters     of keyfold failed archive, there: those in which this user can be read.
                       Others stay and are counted: their user_id in keyfold_failed is NULL.
  dead letters         those in which this user can be read. Others stay and are counted:
                       keyfold failed list shows them with the user "-".

What is not erased:
  queued messages      in RabbitMQ's main and delay queues: workers drop each as it comes. The output says
                       how many messages, of all users, wait there; what workers hold is not among them.
                       Stop what sends the user's events, and run it again once the queues were empty.
  logs, backups and exports: yours to clean. The phrase cache knows no users.

There is no way back. It may be run again, for what came since, and where a part failed: the exit code is
then 1.

Examples:
  keyfold user forget 17 --dry-run
  keyfold user forget 17`
}

func (c *forgetCmd) Check(a *app.App) error {
	faults := []error{a.CheckConfirm(c.Confirmation), a.CheckStore(), a.CheckBroker()}
	if a.Servers.SQL != "" {
		faults = append(faults, a.CheckDatabase())
	}
	return errors.Join(faults...)
}

// Run looks at what there is and, once it is confirmed, writes the tombstone,
// after which nothing is folded any more, and then erases as much as it reaches.
func (c *forgetCmd) Run(a *app.App) error {
	return a.WithStore(func(store *mongodb.Store) error {
		found, err := c.load(a, store)
		if err != nil {
			return err
		}
		faults := found.count(a, c.Yes && !c.DryRun)
		switch {
		case !found.known() && !c.EvenIfUnknown:
			return errors.Join(found.unknown(a), faults)
		case c.DryRun:
			faults = errors.Join(faults, found.lookAtQueues(a))
			return errors.Join(found.emit(a), faults)
		}
		if err := a.Confirm(c.Confirmation, found.question()); err != nil {
			return errors.Join(err, faults)
		}
		return c.erase(a, store, found)
	})
}

// load reads the profile. One that cannot be read can be erased all the same.
func (c *forgetCmd) load(a *app.App, store *mongodb.Store) (*forgotten, error) {
	f := &forgotten{UserID: int32(c.ID), DryRun: c.DryRun}
	before, err := store.Load(a.Ctx, []int32{f.UserID})
	if _, f.damaged = errors.AsType[*engine.UnreadableError](err); f.damaged {
		f.Profile = "could not be read, " + c.Done("erased")
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	f.before = before[0]
	f.Profile = users.Erasure(f.before)
	if f.before != nil && !f.before.Erased() {
		f.Profile = c.Done("erased")
	}
	return f, nil
}

func (c *forgetCmd) erase(a *app.App, store *mongodb.Store, found *forgotten) error {
	done := &forgotten{UserID: found.UserID, Profile: found.Profile, before: found.before}
	if err := store.Forget(a.Ctx, done.UserID, engine.Now()); err != nil {
		return err
	}
	done.Erased = true
	faults := errors.Join(
		done.rows(a, false),
		done.letters(a, func(s *deadletter.Scan, l *deadletter.Letter) error { return s.Remove(l) }),
		done.lookAtQueues(a))
	return errors.Join(done.emit(a), faults)
}

// forgotten is what became of a user, or with DryRun would. Counts that are not
// known are nil.
type forgotten struct {
	UserID       int32          `json:"user_id"`
	DryRun       bool           `json:"dry_run"`
	Erased       bool           `json:"erased"`
	Profile      string         `json:"profile"`
	Interactions *int64         `json:"interactions_deleted"`
	Archived     *int64         `json:"archived_letters_deleted"`
	ArchivedLeft int64          `json:"archived_letters_of_unreadable_users"`
	DeadLetters  *int64         `json:"dead_letters_discarded"`
	Unreadable   int64          `json:"dead_letters_of_unreadable_users"`
	Queued       map[string]int `json:"queued_messages_of_all_users"`

	before  *profile.Profile // nil: none, or one that is damaged
	damaged bool
}

// known reports whether anything is stored of the user.
func (f *forgotten) known() bool {
	some := func(n *int64) bool { return n != nil && *n > 0 }
	return f.before != nil || f.damaged || some(f.Interactions) || some(f.Archived) || some(f.DeadLetters)
}

// count counts rows and dead letters unless quick is true and the profile is known.
func (f *forgotten) count(a *app.App, quick bool) error {
	if quick && f.known() {
		return nil
	}
	return errors.Join(
		f.rows(a, true),
		f.letters(a, func(*deadletter.Scan, *deadletter.Letter) error { return nil }))
}

// rows deletes the user's rows and archived letters, or counts them.
func (f *forgotten) rows(a *app.App, onlyCount bool) error {
	if a.Servers.SQL == "" {
		return nil
	}
	return a.WithDatabase(func(db *outbox.Database) error {
		done, err := db.Forget(a.Ctx, f.UserID, failures.UserIn, onlyCount)
		f.Interactions, f.Archived, f.ArchivedLeft = &done.Rows, &done.Letters, done.Unread
		return err
	})
}

// letters calls do with each dead letter of the user, and counts them.
func (f *forgotten) letters(a *app.App, do func(*deadletter.Scan, *deadletter.Letter) error) error {
	return failures.Scan(a, func(s *deadletter.Scan) error {
		f.DeadLetters = new(int64)
		for l, err := range failures.Watched(a, s, "reading dead letters") {
			if err != nil {
				return err
			}
			switch failures.UserIn(l.Body) {
			case f.UserID:
				if err := do(s, l); err != nil {
					return err
				}
				*f.DeadLetters++
			case 0:
				f.Unreadable++
			}
		}
		return nil
	})
}

func (f *forgotten) lookAtQueues(a *app.App) error {
	names, delays := rabbit.DefaultNames(), rabbit.RetryDelays(a.Config.Retry.Delay, a.Config.Retry.Attempts)
	if a.Queues.Partitions > 0 {
		depths, err := topology.Depths(a.Ctx, a.Servers.RabbitMQ, names, delays)
		f.Queued = depths
		return app.BrokerUnreached(err)
	}
	queues := []string{names.Queue}
	for _, delay := range delays {
		queues = append(queues, names.RetryQueue(delay))
	}
	f.Queued = map[string]int{}
	var faults error
	for _, queue := range queues {
		n, err := rabbit.Depth(a.Ctx, a.Servers.RabbitMQ, queue)
		if err != nil {
			faults = errors.Join(faults, app.BrokerUnreached(err))
			continue
		}
		f.Queued[queue] = n
	}
	return faults
}
