package outbox

import (
	"context"
	"database/sql"
	"errors"
)

// lease is the right to publish the events of some shards. It is used by one
// goroutine.
type lease struct {
	shards []int
	run    runner                  // what reads the rows and marks them
	end    func(commit bool) error // lets the shards go
}

func (d mysqlDialect) lease(ctx context.Context, pool *sql.DB, wanted []int) (*lease, error) {
	return lockShards(ctx, pool, d.byID("keyfold_relay_shards"), wanted)
}

// lockShards locks shards through their rows, in a transaction that also carries the
// marks: the relay that gets a shard next sees them, and a lock never outlives its
// connection.
func lockShards(ctx context.Context, pool *sql.DB, table string, wanted []int) (*lease, error) {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	l := &lease{run: tx, end: func(commit bool) error {
		if commit {
			return tx.Commit()
		}
		return tx.Rollback()
	}}
	l.shards, err = collect(ctx, tx, column[int], "SELECT shard FROM "+table+" WHERE shard IN ("+list(len(wanted))+") FOR UPDATE SKIP LOCKED", anyOf(wanted)...)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return l, nil
}

// release has nothing to do: the server's locks end with their transactions.
func (mysqlDialect) release() error { return nil }

// unsent is the condition of a row that waits, in the form idx_unsent serves.
const unsent = "processed_to_queue = FALSE AND failed_at IS NULL"

// backfillShards is what is added to the shard of a row that is left to a
// backfill: a relay does not look there, so that a table that was taken over does
// not go out at full speed among the events of today.
const backfillShards = Shards

// heads returns the shards that have something to send, with the ids of their
// oldest rows. It reads one index entry per shard, however many rows wait. The
// rows that are left to a backfill have shards of their own, from backfillShards
// on; above is 0 or that.
func (d *Database) heads(ctx context.Context, above int) (map[int]int64, error) {
	heads := map[int]int64{}
	err := each(ctx, d.pool, func(s scanner) error {
		var (
			shard int
			head  sql.NullInt64
		)
		err := s.Scan(&shard, &head)
		if head.Valid {
			heads[shard+above] = head.Int64
		}
		return err
	}, "SELECT s.shard, (SELECT u.id FROM "+d.dialect.withIndex("user_interactions u", "idx_unsent")+
		" WHERE u.processed_to_queue = FALSE AND u.failed_at IS NULL AND u.shard = s.shard + ? ORDER BY "+d.dialect.oldestFirst()+" LIMIT 1) FROM keyfold_relay_shards s", above)
	return heads, err
}
