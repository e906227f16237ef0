package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"keyfold/cmd/cli"
	"keyfold/cmd/users"
	"keyfold/engine"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
	"keyfold/source/outbox"
)

// forgetCmd erases a user.
type forgetCmd struct {
	ID cli.UserID `arg:"" help:"The user's id."`
}

// Help is the long text.
func (c *forgetCmd) Help() string {
	return `What is erased is the profile, the user's events in every state, posts and dead letters. The files are
written anew, so that nothing of them is left there. The profile's place takes a tombstone of user_id, version and
erased_at: events of this user that come later are dropped, but stored, so that they can be told from new
ones; run it again for those. No keyfold-lite may be running on the folder. Dead letters in which no user
can be read stay, and are counted. Logs, backups, exports and the files that were read: yours to clean.

Example:
  keyfold-lite user forget 17`
}

// forgotten is what was erased.
type forgotten struct {
	UserID   int32  `json:"user_id"`
	Erased   bool   `json:"erased"`
	Profile  string `json:"profile"`
	Events   int64  `json:"events_deleted"`
	Posts    int64  `json:"posts_deleted"`
	Dead     int64  `json:"dead_letters_deleted"`
	DeadLeft int64  `json:"dead_letters_of_unreadable_users"`
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
	done, err := erase(a, settings, int32(c.ID))
	if err != nil {
		return err
	}
	for _, name := range []string{databaseName, outboxName} {
		path := filepath.Join(a.data, name)
		if _, absent := os.Stat(path); absent != nil {
			continue
		}
		if err := sqlite.Rewrite(a.ctx, path); err != nil {
			return fmt.Errorf("the user is erased, but what was deleted may still be read in the file: %w; run it again", err)
		}
	}
	return a.Emit(done, func(w *cli.Text) {
		w.Line("user %d is erased: profile %s, %s events, %s posts and %s dead letters deleted; events of this user are dropped from now on",
			done.UserID, done.Profile, cli.Number(done.Events), cli.Number(done.Posts), cli.Number(done.Dead))
		if done.DeadLeft > 0 {
			w.Line("%s dead letters stay in which no user can be read: SELECT * FROM dead WHERE user_id IS NULL", cli.Number(done.DeadLeft))
		}
	})
}

// erase begins with the tombstone, and may be run again where it was stopped.
func erase(a *app, settings sqlite.Settings, user int32) (done forgotten, err error) {
	file, err := sqlite.Open(filepath.Join(a.data, databaseName), settings)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	before, err := file.Load(a.ctx, []int32{user})
	if err != nil {
		return done, err
	}
	done = forgotten{UserID: user, Erased: true, Profile: users.Erasure(before[0])}
	if err := errors.Join(file.Forget(a.ctx, user, engine.Now()), inbox.Migrate(a.ctx, writer{file})); err != nil {
		return done, err
	}
	events, err := inbox.Forget(a.ctx, writer{file}, user, users.Mentioned)
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
	done.Posts, err = posts.Forget(a.ctx, user)
	return done, err
}
