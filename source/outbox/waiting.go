package outbox

import (
	"context"
	"database/sql"
)

// notSent is the condition of a row that was not sent, and unsent that of one that
// waits. In a table that was taken over the shop's column may be NULL: not sent.
const (
	notSent = "(processed_to_queue = FALSE OR processed_to_queue IS NULL)"
	unsent  = notSent + " AND failed_at IS NULL"
)

// eachWaiting calls do with each condition that together are unsent, in the form that an
// index serves: one, and two where the shop's column may be NULL.
func (d *Database) eachWaiting(ctx context.Context, do func(condition string)) error {
	nullable, err := d.nullable(ctx)
	if err != nil {
		return err
	}
	do("processed_to_queue = FALSE AND failed_at IS NULL")
	if nullable {
		do("processed_to_queue IS NULL AND failed_at IS NULL")
	}
	return nil
}

// nullable reports whether processed_to_queue may be NULL. It asks the database once.
func (d *Database) nullable(ctx context.Context) (bool, error) {
	if known := d.mayBeNull.Load(); known != nil {
		return *known, nil
	}
	nullable := true
	if schema := d.dialect.currentSchema(); schema != "" { // SQLite itself leaves out what cannot be
		n, err := collect(ctx, d.pool, column[string], "SELECT is_nullable FROM information_schema.columns WHERE table_schema = "+schema+
			" AND table_name = 'user_interactions' AND column_name = 'processed_to_queue'")
		if err != nil || len(n) == 0 {
			return false, err
		}
		nullable = n[0] == "YES"
	}
	d.mayBeNull.Store(&nullable)
	return nullable, nil
}

// heads returns the shards that have something to send, with the ids of their
// oldest rows. It reads one index entry per shard, however many rows wait. The
// rows that are left to a backfill have shards of their own, from backfillShards
// on; above is 0 or that.
func (d *Database) heads(ctx context.Context, above int) (map[int]int64, error) {
	query := "SELECT s.shard"
	var args []any
	err := d.eachWaiting(ctx, func(waits string) {
		query += ", (SELECT id FROM " + d.dialect.withIndex("user_interactions", "idx_unsent") + " WHERE " + waits +
			" AND user_interactions.shard = s.shard + ? ORDER BY " + d.dialect.oldestFirst() + " LIMIT 1)"
		args = append(args, above)
	})
	if err != nil {
		return nil, err
	}
	heads := map[int]int64{}
	err = each(ctx, d.pool, func(s scanner) error {
		var shard int
		ids := make([]sql.NullInt64, len(args))
		into := []any{&shard}
		for i := range ids {
			into = append(into, &ids[i])
		}
		err := s.Scan(into...)
		for _, id := range ids {
			if head, known := heads[shard+above]; id.Valid && (!known || id.Int64 < head) {
				heads[shard+above] = id.Int64
			}
		}
		return err
	}, query+" FROM keyfold_relay_shards s", args...)
	return heads, err
}
