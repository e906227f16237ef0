package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"keyfold/cmd/terminal"
	"keyfold/engine"
)

// forgetCmd erases a user.
type forgetCmd struct {
	ID userID `arg:"" help:"The user's id."`
}

// Help is the long text.
func (c *forgetCmd) Help() string {
	return `What is erased is the profile in MongoDB. Its place takes a tombstone of user_id, version and
erased_at, which has workers drop the user's events, whatever their time.

What is not erased:
  stored interactions  the rows of DATABASE_URL. Stop what sends the user's events, then run there
                           DELETE FROM user_interactions WHERE user_id = 17;
                       (setup --foreign-keys: deleting the row in the table users takes them along).
  queued messages      in RabbitMQ's main and delay queues: workers drop each as it comes, so they are
                       gone once the queues were empty.
  dead letters         keyfold dlq discard --user 17 --yes, after that. Letters whose user_id cannot be
                       read are not among them: keyfold dlq list shows those with the user "-".
  logs, backups and exports: yours to clean. The phrase cache knows no users.

Example:
  keyfold user forget 17`
}

func (c *forgetCmd) check(a *app) error { return a.checkStore() }

// Run writes the tombstone.
func (c *forgetCmd) Run(a *app) (err error) {
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	user := int32(c.ID)
	before, err := store.Load(a.ctx, []int32{user})
	// A profile that cannot be read can be erased all the same.
	_, unreadable := errors.AsType[*engine.UnreadableError](err)
	if err != nil && !unreadable {
		return err
	}
	if err := store.Forget(a.ctx, user, engine.Now()); err != nil {
		return err
	}
	f := newForgotten(user, before[0])
	f.HadProfile = f.HadProfile || unreadable
	return f.print(a)
}

// forgotten is what became of a user, and what is left for others to remove.
type forgotten struct {
	UserID     int32   `json:"user_id"`
	Erased     bool    `json:"erased"`
	HadProfile bool    `json:"had_profile"`
	Before     string  `json:"erased_before,omitempty"` // when, if it is not the first time
	Left       remains `json:"not_erased"`
}

// remains are how each of what is left goes away.
type remains struct {
	Interactions string `json:"stored_interactions"`
	Queued       string `json:"queued_messages"`
	DeadLetters  string `json:"dead_letters"`
}

func newForgotten(user int32, before *engine.Profile) forgotten {
	f := forgotten{
		UserID:     user,
		Erased:     true,
		HadProfile: before != nil && !before.Erased(),
		Left: remains{
			Interactions: fmt.Sprintf("DELETE FROM user_interactions WHERE user_id = %d;", user),
			Queued:       "workers drop them as they come",
			DeadLetters:  fmt.Sprintf("keyfold dlq discard --user %d --yes", user),
		},
	}
	if before.Erased() {
		f.Before = before.ErasedAt.Time().Format(time.RFC3339)
	}
	return f
}

func (f forgotten) print(a *app) error {
	if a.json {
		return json.NewEncoder(a.out).Encode(f)
	}
	had := ""
	switch {
	case f.Before != "":
		had = fmt.Sprintf("user %d was erased before, %s; ", f.UserID, f.Before)
	case !f.HadProfile:
		had = fmt.Sprintf("user %d had no profile; ", f.UserID)
	}
	where := "the database of ingest and relay, if there is one"
	if a.database.URL != "" {
		where = "the database of DATABASE_URL"
	}
	w := &terminal.Text{W: a.out}
	w.Line("%suser %d is erased; events of this user are dropped from now on", had, f.UserID)
	w.Line("not erased by this:")
	w.Line("  stored interactions  in %s: %s", where, f.Left.Interactions)
	w.Line("  queued messages      %s", f.Left.Queued)
	w.Line("  dead letters         %s", f.Left.DeadLetters)
	w.Line("see keyfold user forget --help for the order, logs and backups")
	return w.Err
}
