package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"keyfold/engine/backoff"
)

// Patience says how a setup waits for locks on a table that a shop is using. A statement
// that waits for one holds up each later statement on the table, the shop's INSERT too:
// it gives up after about a second, and is tried again after a pause.
type Patience struct {
	Tries int // without progress; default 60, in about 5 minutes
	Pause time.Duration
	// Waiting is called after each try that found the table locked; may be nil. The
	// error names what held the lock, where the database tells.
	Waiting func(error)
}

// The pause after the first try, which doubles, unless a [Patience] has another.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Second
)

// patience runs what may be stopped anywhere, and run again.
type patience struct {
	Patience
	dialect dialect
	failed  int // tries since there was progress
}

func (p Patience) with(d dialect) *patience {
	p.Tries = cmp.Or(p.Tries, 60)
	if p.Waiting == nil {
		p.Waiting = func(error) {}
	}
	return &patience{Patience: p, dialect: d}
}

// progress gives a run all of its tries again.
func (p *patience) progress() { p.failed = 0 }

// do runs a step until it ends otherwise than at a lock.
func (p *patience) do(ctx context.Context, conn *sql.Conn, step func() error) error {
	for {
		err := step()
		if class := p.dialect.classify(err); err == nil || class != classLocked && class != classCollision {
			return err
		}
		p.failed++
		if holder := p.dialect.holder(ctx, conn, "user_interactions"); holder != "" {
			err = fmt.Errorf("%s: %w", holder, err)
		}
		if p.failed >= p.Tries {
			return fmt.Errorf("user_interactions was in use in each of %d tries; what is done stays, and the same command goes on from there: "+
				"end the transaction that is open for so long, and run it again: %w", p.failed, err)
		}
		p.Waiting(err)
		if !backoff.Sleep(ctx, cmp.Or(p.Pause, backoff.Doubled(firstPause, longestPause, p.failed-1))) {
			return ctx.Err()
		}
	}
}

// change runs a statement that changes a table, in a transaction: on PostgreSQL it has
// the bound of its wait for a lock. MySQL's is the connection's.
func (p *patience) change(ctx context.Context, conn *sql.Conn, statement string) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		_ = tx.Rollback() // the statement's error says more
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	p.progress()
	return nil
}
