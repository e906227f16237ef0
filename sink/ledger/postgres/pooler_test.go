package postgres

import (
	"errors"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
)

// TestPooler has all of a worker's calls, and retention, go through a PgBouncer in
// transaction mode that has two connections: no call needs what another one left in a
// session. Calls that end at their timeout are not tried: PgBouncer 1.18 to 1.20 may end
// when a call is cancelled (its issue 822).
//
// Promise(ledger/pooler): All calls work through PgBouncer's transaction mode, 1.21 or later.
func TestPooler(t *testing.T) {
	server := pgtest.Shared(t)
	pooler := pgtest.StartPooler(t, server, 2)
	open := func(t *testing.T) *Ledger {
		return openAt(t, pooler.URL(server.Database(t, template(t)))+"&pool_max_conns=8")
	}
	l := open(t)
	must.OK(t, l.Check(ctx))
	contention(t, l, 8, 20)
	must.OK(t, errors.Join(l.probe(ctx, start), l.SetPreferences(ctx, "1", notify.Preferences{}), l.Forget(ctx, "2", start)))
	_, err := l.Clock(ctx)
	must.OK(t, err)
	if done, err := l.Retain(ctx, start+8*day, kept); err != nil || done.Made != 4 || done.Dropped != 2 {
		t.Errorf("retention: %+v, %v", done, err)
	}
	if done, err := l.Retain(ctx, start+8*day, kept); err != nil || done.Made != 0 { // its lock was given back
		t.Errorf("retention again: %+v, %v", done, err)
	}
}
