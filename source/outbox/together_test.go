package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// ledger is a publisher that takes all rows of a call, in their order, or none.
type ledger struct {
	broker
	refuse func() error // decides on a call
}

func (l *ledger) Publish(ctx context.Context, rows []Row) []error {
	if err := l.refuse(); err != nil {
		errs := make([]error, len(rows))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return l.broker.Publish(ctx, rows)
}

// A publisher that takes a call's rows in their order gets a user's backlog in few
// calls, and in its order, whatever it answers in between.
func TestTogether(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		const users, rows = 3, 800
		fill(t, db, users, rows)
		_, err := db.pool.Exec(`UPDATE user_interactions SET body = '{"user_id": "x"}' WHERE id IN (300, 301, 500)`)
		must.OK(t, err)
		l := &ledger{refuse: func() error {
			switch rand.IntN(6) {
			case 0:
				return errors.New("away")
			case 1:
				return engine.ErrUnknown
			default:
				return nil
			}
		}}
		config := brisk()
		config.WholeBatches = true
		running(t, NewRelay(db, l, config, quiet))
		drained(t, db)
		l.expectOrder(t)
		l.expectAll(t, rows-3)
		if failed := backlog(t, db).Failed; failed != 3 {
			t.Errorf("%d rows were set aside, want the 3 that hold no event", failed)
		}
		if l.calls > rows/users/4 {
			t.Errorf("%d calls for %d rows of %d users", l.calls, rows, users)
		}
	})
}
