package profiles

import (
	"errors"
	"fmt"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/dlq"
	"keyfold/cmd/users"
	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// forgetCmd erases a user.
type forgetCmd struct {
	ID cli.UserID `arg:"" help:"The user's id."`
}

// Help is the long text.
func (c *forgetCmd) Help() string {
	return `What is erased, in this order:
  profile              its place takes a tombstone of user_id, version and erased_at, which has
                       workers drop the user's events, whatever their time.
  stored interactions  the user's rows in DATABASE_URL, if that is set.
  dead letters         those in which this user can be read. Others stay and are counted:
                       keyfold dlq list shows them with the user "-".

What is not erased:
  queued messages      in RabbitMQ's main and delay queues: workers drop each as it comes. The output says
                       how many messages, of all users, wait there; what workers hold is not among them.
                       Stop what sends the user's events, and run it again once the queues were empty.
  logs, backups and exports: yours to clean. The phrase cache knows no users.

It may be run again, also where a part failed: the exit code is then 1.

Example:
  keyfold user forget 17`
}

func (c *forgetCmd) Check(a *app.App) error {
	faults := []error{a.CheckStore(), a.CheckBroker()}
	if a.Servers.SQL != "" {
		faults = append(faults, a.CheckDatabase())
	}
	return errors.Join(faults...)
}

// Run writes the tombstone, after which nothing is folded any more, and then
// erases as much as it reaches.
func (c *forgetCmd) Run(a *app.App) error {
	done := forgotten{UserID: int32(c.ID)}
	if err := done.erase(a); err != nil {
		return err
	}
	faults := errors.Join(done.deleteRows(a), done.discardLetters(a), done.lookAtQueues(a))
	return errors.Join(a.Emit(&done, func(w *cli.Text) { done.print(w, a.Servers.SQL != "") }), faults)
}

// forgotten is what became of a user. Counts that are not known are nil.
type forgotten struct {
	UserID       int32          `json:"user_id"`
	Erased       bool           `json:"erased"`
	Profile      string         `json:"profile"`
	Interactions *int64         `json:"interactions_deleted"`
	DeadLetters  *int64         `json:"dead_letters_discarded"`
	Unreadable   int64          `json:"dead_letters_of_unreadable_users"`
	Queued       map[string]int `json:"queued_messages_of_all_users"`
}

func (f *forgotten) erase(a *app.App) error {
	return a.WithStore(func(store *mongodb.Store) error {
		// A profile that cannot be read can be erased all the same.
		f.Profile = "could not be read, erased"
		if before, err := store.Load(a.Ctx, []int32{f.UserID}); err == nil {
			f.Profile = users.Erasure(before[0])
		}
		err := store.Forget(a.Ctx, f.UserID, engine.Now())
		f.Erased = err == nil
		return err
	})
}

func (f *forgotten) deleteRows(a *app.App) error {
	if a.Servers.SQL == "" {
		return nil
	}
	return a.WithDatabase(func(db *outbox.Database) error {
		n, err := db.Forget(a.Ctx, f.UserID)
		f.Interactions = &n
		return err
	})
}

func (f *forgotten) discardLetters(a *app.App) error {
	return dlq.Scan(a, func(s *deadletter.Scan) error {
		f.DeadLetters = new(int64)
		for l, err := range dlq.Watched(a, s, "reading dead letters") {
			if err != nil {
				return err
			}
			body := l.Original
			if body == nil {
				body = l.Body // what the broker gave up on by itself
			}
			switch users.Mentioned(body) {
			case f.UserID:
				if err := s.Remove(l); err != nil {
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
	names := rabbit.DefaultNames()
	queues := []string{names.Queue}
	for _, delay := range rabbit.RetryDelays(a.Config.Retry.Delay, a.Config.Retry.Attempts) {
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

func (f *forgotten) print(w *cli.Text, stored bool) {
	w.Line("user %d is erased; events of this user are dropped from now on", f.UserID)
	w.Line("  profile              %s", f.Profile)
	rows := "not looked at: DATABASE_URL is not set"
	if stored {
		rows = counted(f.Interactions, "deleted")
	}
	w.Line("  stored interactions  %s", rows)
	letters := counted(f.DeadLetters, "discarded")
	if f.Unreadable > 0 {
		letters += fmt.Sprintf("; %s in which no user can be read stay", cli.Number(f.Unreadable))
	}
	w.Line("  dead letters         %s", letters)
	queued := "not reached"
	if len(f.Queued) > 0 {
		var waiting int64
		for _, n := range f.Queued {
			waiting += int64(n)
		}
		queued = cli.Number(waiting) + " of all users"
	}
	w.Line("  queued messages      %s; workers drop those of user %d as they come", queued, f.UserID)
	w.Line("run it again once the queues were empty; keyfold user forget --help tells of logs and backups")
}

// counted says how many, or that it is not known.
func counted(n *int64, done string) string {
	if n == nil {
		return "not reached"
	}
	return cli.Number(*n) + " " + done
}
