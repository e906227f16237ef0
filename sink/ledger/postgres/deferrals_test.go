package postgres

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledgertest"
)

// fillDeferrals makes rows without decisions: due of them are due at start, and every
// tenth of these is one of three items of a digest. The others are due later, one a
// second.
func fillDeferrals(t testing.TB, l *Ledger, due, later int) {
	t.Helper()
	body := strings.ReplaceAll(string(ledgertest.Event("user-name", notify.Promo, start).Body), "'", "''")
	run(t, l, fmt.Sprintf(`INSERT INTO notify_deferrals (event_id, user_id, turn, due_at, spent, digest_key, slot, event, next_at)
		SELECT id, 'user ' || (i / 3), 1, due, NULL, CASE WHEN i < %[1]d AND i %% 30 < 3 THEN 'PROMO' END,
			CASE WHEN i < %[1]d AND i %% 30 < 3 THEN due END, replace(replace('%[2]s', 'user-name', 'user ' || (i / 3)), '%[4]s', id::text), due
		FROM (SELECT i, gen_random_uuid() AS id,
			to_timestamp(%[3]d / 1000.0) + greatest(0, i - %[1]d + 1) * interval '1 second' AS due FROM generate_series(0, %[1]d + %[5]d - 1) i) rows`,
		due, body, start, eventIDOf(body), later))
	run(t, l, "VACUUM ANALYZE notify_deferrals")
}

func eventIDOf(body string) string {
	_, rest, _ := strings.Cut(body, `"event_id":"`)
	return rest[:36]
}

// long is set for `make soak`: what tests show by volume they show at length.
var long = os.Getenv("KEYFOLD_SOAK") != ""

// sizes returns how many deferrals are due and not due: few, unless KEYFOLD_SOAK is set.
func sizes() (due, later int) {
	if long {
		return 100_000, 900_000
	}
	return 3_000, 3_000
}

// Workers claim side by side: each deferral goes to one of them, each digest whole, and
// an ended lease returns what a worker has left.
//
// Promise(ledger/claims): Workers claim due deferrals side by side without a wait, each digest whole;
// claims write no index and leave urgent events room.
// Figure: 100,000 of 1,000,000 claimed in 9 s by 4 claimers
// Promise(notify/leases)
func TestClaimsSideBySide(t *testing.T) {
	url := newURL(t)
	l := openAt(t, url)
	due, later := sizes()
	fillDeferrals(t, l, due, later)
	const workers, n = 4, 500
	var mu sync.Mutex
	owners := map[uuid.UUID]int{}
	var slowest time.Duration
	claimAll := func(worker int) (claimed int) {
		for empty := 0; empty < 3; { // what another one has locked comes with the next claim
			began := time.Now()
			all, err := l.Claim(ctx, start, start+60_000, n)
			took := time.Since(began)
			if err != nil {
				t.Error(err)
				return claimed
			}
			if empty++; len(all) > 0 {
				empty = 0
			}
			items := map[string]int{}
			mu.Lock()
			slowest = max(slowest, took)
			for i := range all {
				owners[all[i].Event.ID]++
				if all[i].DigestKey != "" {
					items[all[i].Event.UserID]++
				}
			}
			mu.Unlock()
			for user, count := range items {
				if count != 3 {
					t.Errorf("worker %d: %d of the 3 items of a digest of %s", worker, count, user)
				}
			}
			claimed += len(all)
		}
		return claimed
	}
	var group sync.WaitGroup
	began := time.Now()
	for worker := range workers {
		group.Go(func() { claimAll(worker) })
	}
	group.Wait()
	t.Logf("%d of %d rows claimed in %v by %d workers, the slowest claim took %v", len(owners), due+later, time.Since(began), workers, slowest)
	if len(owners) != due {
		t.Errorf("%d were claimed of %d", len(owners), due)
	}
	for id, times := range owners {
		if times != 1 {
			t.Fatalf("%s was claimed %d times", id, times)
		}
	}
	if next, err := l.NextDue(ctx); err != nil || next != start+1000 {
		t.Errorf("the next is due at %d, %v", next-start, err)
	}
	all, err := l.Claim(ctx, start+60_000, start+120_000, n)
	if err != nil || len(all) < n {
		t.Errorf("%d after the lease has ended, %v", len(all), err)
	}
}

// Another call has locked one item of a digest, such as a claim whose items they are: the
// others are not claimed without it.
func TestADigestIsNotClaimedInHalves(t *testing.T) {
	l := openNew(t)
	fillDeferrals(t, l, 3, 0) // one digest
	tx, err := l.pool.Begin(ctx)
	must.OK(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, "SELECT FROM notify_deferrals ORDER BY event_id LIMIT 1 FOR UPDATE")
	must.OK(t, err)
	if part, err := l.Claim(ctx, start, start+60_000, 9); err != nil || len(part) > 0 {
		t.Errorf("%d items of 3 were claimed, %v", len(part), err)
	}
	must.OK(t, tx.Rollback(ctx))
	if whole, err := l.Claim(ctx, start, start+60_000, 9); err != nil || len(whole) != 3 || whole[0].DigestKey == "" {
		t.Errorf("then %d of 3, %v", len(whole), err)
	}
}

// A worker that is frozen amid a claim keeps others from its own rows only.
//
// Promise(ledger/claims)
func TestClaimsWaitForNothing(t *testing.T) {
	l := openNew(t)
	fillDeferrals(t, l, 300, 0)
	frozen, err := l.pool.Begin(ctx)
	must.OK(t, err)
	defer func() { must.OK(t, frozen.Rollback(ctx)) }()
	_, err = frozen.Exec(ctx, "SELECT notify_claim($1, $1, 100)", start.Time())
	must.OK(t, err)
	all, err := l.Claim(ctx, start, start+60_000, 1000)
	if err != nil || len(all) < 150 || len(all) > 200 { // the frozen claim has whole digests
		t.Errorf("%d of the other 200 at most, %v", len(all), err)
	}
}

// The queries of the poller read the index, and of it what is leased and what they claim,
// whatever waits.
//
// Promise(ledger/claims, ledger/deferrals)
func TestPlansOfDeferrals(t *testing.T) {
	l := openAt(t, newURL(t)+"&pool_max_conns=1")
	due, later := sizes()
	fillDeferrals(t, l, due, later)
	leased := 0
	for range 4 {
		scans, before := reads(t, l)
		_, err := l.NextDue(ctx)
		must.OK(t, err)
		after, next := reads(t, l)
		if after != scans || next-before > int64(2*leased+10) {
			t.Errorf("with %d leased, NextDue reads %d entries, and the table %d times", leased, next-before, after-scans)
		}
		began := time.Now()
		all, err := l.Claim(ctx, start, start+engine.Millis(60_000), 500)
		must.OK(t, err)
		scanned, claim := reads(t, l)
		t.Logf("%d claimed in %v, with %d leased: %d entries were read", len(all), time.Since(began), leased, claim-next)
		if scanned != scans || claim-next > int64(leased+len(all)) {
			t.Errorf("with %d leased, a claim of %d reads %d entries, and the table %d times", leased, len(all), claim-next, scanned-scans)
		}
		leased += len(all)
	}
}

// reads returns how often all deferrals were read, and how many entries of the index by
// their time were.
func reads(t *testing.T, l *Ledger) (scans, entries int64) {
	t.Helper()
	run(t, l, "SELECT pg_stat_force_next_flush()")
	run(t, l, "SELECT 1")
	run(t, l, "SELECT pg_stat_clear_snapshot()")
	must.OK(t, l.pool.QueryRow(ctx, `SELECT t.seq_scan, i.idx_tup_read FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i USING (relid)
		WHERE t.relname = 'notify_deferrals' AND i.indexrelname = 'notify_deferrals_due'`).Scan(&scans, &entries))
	return scans, entries
}
