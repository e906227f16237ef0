package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"keyfold/engine"
)

// The tables that [Database.Adopt] takes over.
const (
	adoptInPlace = "user_interactions"
	adoptByCopy  = "messenger_outbox"
)

// AdoptOptions say how [Database.Adopt] goes about it.
type AdoptOptions struct {
	Patience
	Backfill bool             // leave what the shop has not published to a backfill
	Progress func(done int64) // called after each chunk; may be nil
}

// Adopted is what [Database.Adopt] did.
type Adopted struct {
	Table      string `json:"table"`
	Before     int64  `json:"rows_before"` // in the table when it began
	After      int64  `json:"rows_after"`  // of these, at the end
	Taken      int64  `json:"taken"`       // rows taken over by this run
	History    int64  `json:"history"`     // of these: published by the shop
	Duplicates int64  `json:"duplicates"`  // of these: their id was known
	NoEvents   int64  `json:"no_events"`   // left as they are
}

// CheckAdopt refuses a table that [Database.Adopt] cannot take over.
func CheckAdopt(table string) error {
	if table == adoptInPlace || table == adoptByCopy {
		return nil
	}
	return engine.ConfigurationError(reasonSchema, fmt.Errorf("--adopt takes %s and %s, not %q: a table with the specification's columns is renamed first, "+
		"ALTER TABLE %s RENAME TO user_interactions, with the shop's INSERT, and taken over with --adopt user_interactions", adoptInPlace, adoptByCopy, table, table))
}

// Adopt takes over a table of a shop's, which goes on inserting: user_interactions gets
// keyfold's columns in place; the rows of messenger_outbox are copied. It may be stopped
// and run again. What the shop has published becomes history, and the rest is published
// by a relay. No relay starts before a table in place is taken over whole, so that the
// order of a user's rows is kept.
func (d *Database) Adopt(ctx context.Context, table string, options AdoptOptions) (done Adopted, err error) {
	if err := CheckAdopt(table); err != nil {
		return done, err
	}
	done.Table = table
	if table == adoptByCopy {
		if err := d.Setup(ctx, SetupOptions{Patience: options.Patience}); err != nil {
			return done, err
		}
	}
	err = d.settingUp(ctx, func(pool *sql.DB, conn *sql.Conn, flavour string) error {
		run := &adopting{
			db: &Database{pool: pool, dialect: d.dialect, words: d.words}, as: adoptionOf(flavour), options: options, done: &done, patience: options.with(d.dialect),
		}
		return run.patience.do(ctx, conn, func() error {
			if table == adoptByCopy {
				return run.copy(ctx, conn)
			}
			return run.inPlace(ctx, conn, flavour)
		})
	})
	return done, err
}

// adopting is one run.
type adopting struct {
	db      *Database
	as      adoption
	options AdoptOptions
	done    *Adopted
	newest  int64 // id of the table when it began; 0 before it is known

	patience *patience
}

const (
	adoptedTable = "CREATE TABLE IF NOT EXISTS keyfold_adopted (table_name VARCHAR(64) NOT NULL PRIMARY KEY, position BIGINT NOT NULL, done BOOLEAN NOT NULL)"
	halfAdopted  = "SELECT table_name FROM keyfold_adopted WHERE table_name = 'user_interactions' AND done = FALSE"
)

// begin notes that a table is being taken over, where that is not noted.
func (a *adopting) begin(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, adoptedTable); err != nil {
		return err
	}
	there, err := collect(ctx, conn, column[string], "SELECT table_name FROM keyfold_adopted WHERE table_name = ?", a.done.Table)
	if err == nil && len(there) == 0 {
		_, err = conn.ExecContext(ctx, "INSERT INTO keyfold_adopted (table_name, position, done) VALUES (?, 0, FALSE)", a.done.Table)
	}
	return err
}

// inPlace adds the columns and indexes, takes over row after row, and notes the version
// of the schema last: a relay checks it at its start.
func (a *adopting) inPlace(ctx context.Context, conn *sql.Conn, flavour string) error {
	if err := checkSpecified(ctx, conn); err != nil {
		return err
	}
	if err := a.as.checkTypes(ctx, conn); err != nil {
		return err
	}
	if readable(ctx, conn, "message_id, shard") && refuseHalf(ctx, conn) == nil {
		return nil // keyfold's already
	}
	if err := a.checkContents(ctx, conn); err != nil {
		return err
	}
	if err := a.begin(ctx, conn); err != nil {
		return a.db.fault("take over", err)
	}
	if err := takeOwnTypes(ctx, conn, flavour, a.patience); err != nil {
		return a.db.fault("have event_type take the shop's types", err)
	}
	if a.newest == 0 {
		var err error
		if a.newest, a.done.Before, err = countUpTo(ctx, conn, 0); err != nil {
			return a.db.fault("count the rows", err)
		}
	}
	if err := a.widen(ctx, conn); err != nil {
		return a.db.fault("widen user_interactions", err)
	}
	if err := a.fill(ctx); err != nil {
		return err
	}
	var err error
	if _, a.done.After, err = countUpTo(ctx, conn, a.newest); err != nil {
		return a.db.fault("count the rows", err)
	}
	if a.done.After < a.done.Before {
		return fmt.Errorf("user_interactions had %d rows up to id %d and has %d: if the shop deleted none, restore a backup; else run this again", a.done.Before, a.newest, a.done.After)
	}
	if err := a.db.noteVersions(ctx, a.db.pool, conn, flavour); err != nil {
		return a.db.fault("note the version", err)
	}
	_, err = conn.ExecContext(ctx, "UPDATE keyfold_adopted SET done = TRUE WHERE table_name = ?", a.done.Table)
	return err
}

// countUpTo counts the rows up to an id; 0 is the newest.
func countUpTo(ctx context.Context, conn *sql.Conn, newest int64) (id, rows int64, err error) {
	if newest == 0 {
		err = conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(id), 0) FROM user_interactions").Scan(&newest)
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM user_interactions WHERE id <= ?", newest).Scan(&rows)
	}
	return newest, rows, err
}

// noteVersions notes the migrations whose work Adopt has done.
func (d *Database) noteVersions(ctx context.Context, pool *sql.DB, conn *sql.Conn, flavour string) error {
	provider, err := d.provider(pool, flavour, "")
	if err != nil {
		return err
	}
	if _, err := provider.GetDBVersion(ctx); err != nil { // makes the table
		return err
	}
	for _, source := range provider.ListSources() {
		if source.Version > adoptedVersion {
			continue
		}
		if err := noteVersion(ctx, conn, source.Version); err != nil {
			return err
		}
	}
	return nil
}

// fill takes over the rows that have no shard: those from before the columns were added.
func (a *adopting) fill(ctx context.Context) error {
	for after := int64(0); ; {
		var ids []int64
		var chunk Adopted
		err := a.db.transact(ctx, "take over rows", func(tx *sql.Tx) (err error) {
			chunk = Adopted{}
			ids, err = collect(ctx, tx, column[int64], "SELECT id FROM user_interactions"+a.db.words.byID+
				" WHERE id > ? AND shard IS NULL ORDER BY id LIMIT ?"+a.db.words.rowLock, after, statementRows)
			if err != nil || len(ids) == 0 {
				return err
			}
			return a.fillChunk(ctx, tx, ids, &chunk)
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		a.count(int64(len(ids)), &chunk)
	}
}

func (a *adopting) count(n int64, chunk *Adopted) {
	a.patience.progress()
	a.done.Taken += n
	a.done.History += chunk.History
	a.done.Duplicates += chunk.Duplicates
	a.done.NoEvents += chunk.NoEvents
	if a.options.Progress != nil {
		a.options.Progress(a.done.Taken)
	}
}

// fillChunk gives rows their shard, and registers the ids of those that the shop has
// published. The relay completes the others, as it does with every row of a shop's.
func (a *adopting) fillChunk(ctx context.Context, tx *sql.Tx, ids []int64, chunk *Adopted) error {
	shard := a.as.shard
	if a.options.Backfill {
		shard = fmt.Sprintf("(%s) + CASE WHEN COALESCE(processed_to_queue, FALSE) THEN 0 ELSE %d END", shard, backfillShards)
	}
	among := " WHERE id IN (" + list(len(ids)) + ")"
	if _, err := tx.ExecContext(ctx, "UPDATE user_interactions SET shard = "+shard+", processed_to_queue = COALESCE(processed_to_queue, FALSE)"+
		a.as.times+among, anyOf(ids)...); err != nil {
		return err
	}
	shop, err := collect(ctx, tx, scanShopRow, "SELECT "+shopColumns+" FROM user_interactions"+among+" AND processed_to_queue = TRUE AND registered = FALSE ORDER BY id", anyOf(ids)...)
	if err != nil {
		return err
	}
	done := newCompletion()
	rows, repeated := newRows(shop, &done)
	fresh, err := a.db.register(ctx, tx, rows)
	if err != nil {
		return err
	}
	for _, row := range fresh {
		row.fresh = true
	}
	for _, row := range rows {
		if !row.fresh {
			repeated = append(repeated, row)
		}
	}
	chunk.History, chunk.Duplicates, chunk.NoEvents = int64(len(fresh)), int64(len(repeated)), int64(len(done.faults))
	// What is history gets no body: it is made of the columns.
	return errors.Join(note(ctx, tx, fresh, "registered = TRUE", false), note(ctx, tx, repeated, "duplicate = TRUE", false))
}

// refuseHalf refuses a table whose take-over has begun and has not ended.
func refuseHalf(ctx context.Context, conn *sql.Conn) error {
	if names, err := collect(ctx, conn, column[string], halfAdopted); err != nil || len(names) == 0 {
		return nil //nolint:nilerr // where there is no such table, nothing was begun
	}
	return engine.ConfigurationError(reasonSchema, fmt.Errorf("taking over user_interactions was begun and is not finished: run %s again, which goes on", adoptCommand))
}
