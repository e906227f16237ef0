package outbox

import (
	"context"
	"database/sql"
	"strings"
)

// notSent is the condition of a row that was not sent, and unsent that of one that
// waits. In a table that was taken over the shop's column may be NULL: not sent.
const (
	notSent = "(processed_to_queue = FALSE OR processed_to_queue IS NULL)"
	unsent  = notSent + " AND failed_at IS NULL"
)

// waits returns the conditions that together are unsent, in the form that an index
// serves: one, and two where the shop's column may be NULL.
func (d *Database) waits(ctx context.Context) ([]string, error) {
	conditions := []string{"processed_to_queue = FALSE AND failed_at IS NULL", "processed_to_queue IS NULL AND failed_at IS NULL"}
	nullable, err := d.nullable(ctx)
	if !nullable {
		conditions = conditions[:1]
	}
	return conditions, err
}

// nullable reports whether processed_to_queue may be NULL, and an index finds the rows
// where it is. It asks the database once.
func (d *Database) nullable(ctx context.Context) (bool, error) {
	if known := d.mayBeNull.Load(); known != nil {
		return *known, nil
	}
	found, err := collect(ctx, d.pool, column[int], d.words.findsNulls)
	nullable := len(found) > 0
	if err == nil {
		d.mayBeNull.Store(&nullable)
	}
	return nullable, err
}

// indexNulls makes the index of rows whose processed_to_queue is NULL, where such rows may
// be and no other index finds them. (CONCURRENTLY would wait for the transaction that holds
// setup's lock.)
func (d *Database) indexNulls(ctx context.Context, conn *sql.Conn, flavour string) error {
	d.mayBeNull.Store(nil)
	if flavour != PostgreSQL {
		return nil
	}
	maybe, err := collect(ctx, conn, column[int], "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema()"+
		" AND table_name = 'user_interactions' AND column_name = 'processed_to_queue' AND is_nullable = 'YES'")
	if err != nil || len(maybe) == 0 {
		return err
	}
	there, err := collect(ctx, conn, column[int], d.words.findsNulls)
	if err != nil || len(there) > 0 {
		return err
	}
	for _, statement := range []string{"DROP INDEX IF EXISTS idx_unsent_null", // one that is invalid
		"CREATE INDEX " + strings.Replace(nullIndex, " (", " ON user_interactions (", 1)} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// nullIndex is idx_unsent of PostgreSQL for these rows.
const nullIndex = "idx_unsent_null (shard, (id + 0)) WHERE processed_to_queue IS NULL AND failed_at IS NULL"

// heads returns the shards that have something to send, with the ids of their
// oldest rows. It reads one index entry per shard, however many rows wait. The
// rows that are left to a backfill have shards of their own, from backfillShards
// on; above is 0 or that.
func (d *Database) heads(ctx context.Context, above int) (map[int]int64, error) {
	waits, err := d.waits(ctx)
	if err != nil {
		return nil, err
	}
	query := "SELECT s.shard"
	var args []any
	for _, condition := range waits {
		query += ", (SELECT id FROM user_interactions" + d.words.index("idx_unsent") + " WHERE " + condition +
			" AND user_interactions.shard = s.shard + ? ORDER BY " + d.words.oldestFirst + " LIMIT 1)"
		args = append(args, above)
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
