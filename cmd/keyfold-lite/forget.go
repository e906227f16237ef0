package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/profile/users"

	"keyfold/engine"
	"keyfold/sink/sqlfile"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
	"keyfold/source/outbox"
)

// forgetCmd erases a user.
type forgetCmd struct {
	ID            cli.UserID       `arg:"" help:"The user's id."`
	Confirmation  cli.Confirmation `embed:""`
	EvenIfUnknown bool             `name:"even-if-unknown" help:"Erase a user of whom nothing is stored: later events are dropped."`
}

// Help is the long text.
func (c *forgetCmd) Help() string {
	return `What is erased is the profile, the user's events in every state, posts and dead events. The files are
written anew, so that nothing of them is left there. The profile's place takes a tombstone of user_id, version and
erased_at: events of this user that come later are dropped, but stored, so that they can be told from new
ones; run it again for those. There is no way back. No keyfold-lite may be running on the folder. Dead events in
which no user can be read stay, and are counted. Logs, backups, exports and the files that were read: yours to clean.

Examples:
  keyfold-lite user forget 17 --dry-run
  keyfold-lite user forget 17 --yes`
}

// forgotten is what was erased, or would be.
type forgotten struct {
	UserID   int32  `json:"user_id"`
	Erased   bool   `json:"erased"`
	Profile  string `json:"profile"`
	Events   int64  `json:"events_deleted"`
	Posts    int64  `json:"posts_deleted"`
	Dead     int64  `json:"dead_letters_deleted"`
	DeadLeft int64  `json:"dead_letters_of_unreadable_users"`
	DryRun   bool   `json:"dry_run,omitempty"` // nothing was changed

	before *profile.Profile
}

// Run erases the user.
func (c *forgetCmd) Run(a *app) error {
	reader, err := openFile(a)
	if err != nil {
		return err
	}
	settings := reader.Settings()
	if err := reader.Close(); err != nil {
		return err
	}
	unlock, err := lockFolder(a.data)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := erase(a, settings, int32(c.ID), true)
	if err != nil {
		return err
	}
	if found.unknown() && !c.EvenIfUnknown {
		return fmt.Errorf("nothing is stored of user %d in %s: nothing was changed; "+
			"add --even-if-unknown to have later events of this user dropped", c.ID, a.data)
	}
	if c.Confirmation.DryRun {
		return a.Emit(found, func(w *cli.Text) { found.print(w, a) })
	}
	if err := a.Confirm(c.Confirmation, fmt.Sprintf("Erase user %d from %s (%s)? There is no way back.", c.ID, a.data, found.stored())); err != nil {
		return err
	}
	done, err := erase(a, settings, int32(c.ID), false)
	if err != nil {
		return err
	}
	if err := sqlfile.Rewrite(a.ctx, filepath.Join(a.data, databaseName)); err != nil {
		return fmt.Errorf("the user is erased, but what was deleted may still be read in the file: %w; run it again", err)
	}
	return a.Emit(done, func(w *cli.Text) { done.print(w, a) })
}

// unknown reports that nothing is stored of the user, and nothing ever was.
func (f *forgotten) unknown() bool { return f.before == nil && f.Events+f.Posts+f.Dead == 0 }

// stored says what there is to erase.
func (f *forgotten) stored() string {
	profile := "no profile"
	switch {
	case f.before.Erased():
		profile = "erased at " + cli.At(f.before.ErasedAt.Time())
	case f.before != nil:
		profile = "the profile"
	}
	return profile + ", " + f.rows()
}

func (f *forgotten) rows() string {
	return fmt.Sprintf("%s, %s, %s", cli.Count(f.Events, "event"), cli.Count(f.Posts, "post"), cli.Count(f.Dead, "dead event"))
}

func (f *forgotten) print(w *cli.Text, a *app) {
	switch {
	case f.before.Erased():
		w.Line("user %d was erased at %s", f.UserID, cli.At(f.before.ErasedAt.Time()))
	case f.before == nil:
		w.Line("user %d had no profile", f.UserID)
	case f.DryRun:
		w.Line("the profile of user %d would be erased", f.UserID)
	default:
		w.Line("the profile of user %d is erased", f.UserID)
	}
	w.Line("  %s %s", f.rows(), cli.Confirmation{DryRun: f.DryRun}.Done("deleted"))
	if f.DeadLeft > 0 {
		w.Line("  %s left in which no user can be read: %s failed list", cli.Count(f.DeadLeft, "dead event"), a.command())
	}
	if !f.DryRun {
		w.Line("events of this user are dropped from now on")
	}
}

// erase begins with the tombstone, and may be run again where it was stopped. With
// dryRun it says what there is to erase, and changes nothing.
func erase(a *app, settings sqlite.Settings, user int32, dryRun bool) (done forgotten, err error) {
	file, err := sqlite.Open(filepath.Join(a.data, databaseName), settings)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	before, err := file.Load(a.ctx, []int32{user})
	if err != nil {
		return done, err
	}
	done = forgotten{UserID: user, Erased: !dryRun, DryRun: dryRun, before: before[0]}
	if done.Profile = users.Erasure(done.before); dryRun && done.before != nil && !done.before.Erased() {
		done.Profile = "would be erased"
	}
	if !dryRun {
		if err := file.Forget(a.ctx, user, engine.Now()); err != nil {
			return done, err
		}
	}
	if err := inbox.Migrate(a.ctx, writer{file}); err != nil {
		return done, err
	}
	events, err := inbox.Forget(a.ctx, writer{file}, user, users.Mentioned, dryRun)
	if err != nil {
		return done, err
	}
	done.Events, done.Dead, done.DeadLeft = events.Events, events.Dead, events.Unread
	if _, absent := os.Stat(filepath.Join(a.data, outboxName)); absent != nil {
		return done, nil // nothing was ever posted
	}
	posts, err := openOutbox(a)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, posts.Close()) }()
	if err := posts.Setup(a.ctx, outbox.SetupOptions{}); err != nil {
		return done, err
	}
	stored, err := posts.Forget(a.ctx, user, users.Mentioned, dryRun)
	done.Posts = stored.Rows
	return done, err
}
