package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// forgetChunk is how many rows share a transaction.
const forgetChunk = 1000

// Forgotten counts what [Database.Forget] deleted.
type Forgotten struct {
	Rows    int64 // of user_interactions
	Letters int64 // archived dead letters
	Unread  int64 // archived letters that stay: no user can be read in them
}

// Forget deletes all rows of a user, sent or not, then the user's ids and archived dead
// letters, and leaves no copy in SQLite's file. mentioned returns whose event an archived
// letter has, 0 where that cannot be read. With onlyCount it says what it would delete.
// It may be stopped and run again. Rows that a relay is publishing at this moment may still
// become messages.
func (d *Database) Forget(ctx context.Context, user int32, mentioned func(letter []byte) int32, onlyCount bool) (done Forgotten, err error) {
	letters, unread, err := d.lettersOf(ctx, user, mentioned)
	if err != nil {
		return Forgotten{}, d.fault("look for the user's archived letters", err)
	}
	done.Unread = unread
	if onlyCount {
		done.Letters = int64(len(letters))
		done.Rows, err = d.Count(ctx, Filter{UserID: user})
		return done, err
	}
	if done.Rows, err = d.deleteRowsOf(ctx, user); err != nil {
		return done, err
	}
	if _, err := d.pool.ExecContext(ctx, "DELETE FROM keyfold_event_ids WHERE user_id = ?", user); err != nil {
		return done, d.fault("delete the user's ids", err)
	}
	for ids := range slices.Chunk(letters, statementRows) {
		n, err := d.deleteIDs(ctx, "keyfold_failed", ids)
		if done.Letters += n; err != nil {
			return done, err
		}
	}
	if err := d.dialect.overwrite(ctx, d.pool); err != nil {
		return done, fmt.Errorf("the user's rows are deleted, but may still be read in the file: %w; run it again", d.fault("write the file anew", err))
	}
	return done, nil
}

func (d *Database) deleteRowsOf(ctx context.Context, user int32) (deleted int64, err error) {
	for {
		ids, err := collect(ctx, d.pool, column[int64], "SELECT id FROM user_interactions WHERE user_id = ? LIMIT ?", user, forgetChunk)
		if err != nil {
			return deleted, d.fault("look for the user's events", err)
		}
		if len(ids) == 0 {
			return deleted, nil
		}
		n, err := d.deleteIDs(ctx, "user_interactions", ids)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
}

// deleteIDs deletes rows of a table in a transaction.
func (d *Database) deleteIDs(ctx context.Context, table string, ids []int64) (n int64, err error) {
	err = d.transact(ctx, "delete the user from "+table, func(tx *sql.Tx) error {
		n, err = change(ctx, tx, "DELETE FROM "+table+" WHERE id IN ("+list(len(ids))+")", anyOf(ids)...)
		return err
	})
	return n, err
}

// letterPage is how many archived letters are read at once.
const letterPage = 100

// lettersOf returns the ids of a user's archived letters, and how many have no user: a
// letter may have been archived without the one that its body has.
func (d *Database) lettersOf(ctx context.Context, user int32, mentioned func([]byte) int32) (ids []int64, unread int64, err error) {
	if ids, err = collect(ctx, d.pool, column[int64], "SELECT id FROM keyfold_failed WHERE user_id = ?", user); err != nil {
		return nil, 0, err
	}
	for after, n := int64(0), letterPage; n == letterPage; {
		n = 0
		err := each(ctx, d.pool, func(s scanner) error {
			var body []byte
			err := s.Scan(&after, &body)
			n++
			switch mentioned(body) {
			case user:
				ids = append(ids, after)
			case 0:
				unread++
			}
			return err
		}, "SELECT id, body FROM keyfold_failed WHERE user_id IS NULL AND id > ? ORDER BY id LIMIT ?", after, letterPage)
		if err != nil {
			return nil, 0, err
		}
	}
	return ids, unread, nil
}
