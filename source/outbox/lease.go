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

func (mysqlDialect) lease(ctx context.Context, pool *sql.DB, wanted []int) (*lease, error) {
	return lockShards(ctx, pool, "keyfold_relay_shards"+mysqlWords.byID, wanted)
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

// backfillShards is what is added to the shard of a row that is left to a
// backfill: a relay does not look there, so that a table that was taken over does
// not go out at full speed among the events of today.
const backfillShards = Shards
