package postgres

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/sink/ledgertest"
)

// soak skips a long test unless KEYFOLD_SOAK asks for it: its figures are in
// docs/reference/promises.md.
func soak(t *testing.T) {
	t.Helper()
	if !long {
		t.Skip("a long test with figures: set KEYFOLD_SOAK=1")
	}
}

// TestMillionsOfRecords makes a day of 2,000,000 records (KEYFOLD_SOAK_RECORDS: as many)
// on a server that waits for the disk. No call reads the records whole. The day is
// dropped while flushes go on: it logs how long commits were kept out, and how long
// flushes took before and meanwhile.
//
// Promise(ledger/drop-short): Dropping a day of many records locks commits out for milliseconds.
// Figure: 2,000,000 records: 10 ms
func TestMillionsOfRecords(t *testing.T) {
	soak(t)
	records := 2_000_000
	if n, err := strconv.Atoi(os.Getenv("KEYFOLD_SOAK_RECORDS")); err == nil {
		records = n
	}
	server := pgtest.Start(t, "fsync=on", "shared_buffers=256MB", "max_wal_size=1GB", "maintenance_work_mem=256MB", "wal_level=minimal", "max_wal_senders=0")
	l := openAt(t, server.URL("postgres"))
	must.OK(t, l.Setup(ctx))
	began := time.Now()
	single, digest := fill2M(t, l, records)
	t.Logf("%d records were made in %v", records, time.Since(began).Round(time.Second))

	before := scans(t, l)
	callEach(t, l, single, digest)
	if after := scans(t, l); after != before {
		t.Errorf("the tables of decisions were read whole %d times", after-before)
	}

	now := start + 100*day
	_, err := l.EnsurePartitions(ctx, now, 2)
	must.OK(t, err)
	flushes := startFlushes(t, l, now)
	time.Sleep(15 * time.Second)
	alone := flushes.take()
	began = time.Now()
	dropped, kept, err := l.DropBefore(ctx, now)
	took := time.Since(began)
	must.OK(t, err)
	time.Sleep(time.Second)
	beside := flushes.take()
	t.Logf("a day of %d records was dropped in %v, of which commits were kept out for at most %v", records, took.Round(time.Millisecond), kept.Round(time.Microsecond))
	t.Logf("flushes alone: %s", alone)
	t.Logf("flushes beside the drop: %s", beside)
	if dropped != 1 || kept > time.Second {
		t.Errorf("%d days were dropped, commits were kept out for %v", dropped, kept)
	}
	began = time.Now()
	keys, _, err := l.deleteKeys(ctx, now, now)
	took = time.Since(began)
	beside = flushes.take()
	flushes.stop()
	must.OK(t, err)
	t.Logf("%d event keys were deleted in %v", keys, took.Round(time.Millisecond))
	t.Logf("flushes beside the deletion: %s", beside)
}

// fill2M makes a day of records, with a user for each 100 of them, a key each, and
// deferrals for those that wait. It returns a NOW and a digest.
func fill2M(t *testing.T, l *Ledger, records int) (single, digest uuid.UUID) {
	t.Helper()
	const table = "notify_decisions_20260528" // the day of start
	body := string(ledgertest.Event("user-7", notify.Update, start).Body)
	run(t, l, "CREATE TABLE "+table+" (LIKE notify_decisions INCLUDING DEFAULTS INCLUDING CONSTRAINTS)")
	// A decision_id begins with its time. Of 5 records, 3 are NOW, one LATER, one NEVER.
	run(t, l, `INSERT INTO `+table+` (decision_id, event_id, user_id, seq, event_type, source, reasons, rule_version, defer_count,
			decided_at, outcome, defer_until, delivery_status, ai_used, channels, event, facts)
		SELECT (lpad(to_hex(ms), 12, '0') || '70008' || lpad(to_hex(i), 15, '0'))::uuid, md5(i::text)::uuid, 'user-' || i % users, 1 + i / users,
			'UPDATE', 'shop', '{SCORE_HIGH}', '2026-11-22', 0, timestamptz 'epoch' + ms * interval '1 ms', outcome,
			CASE outcome WHEN 'LATER' THEN timestamptz 'epoch' + (ms + 60000) * interval '1 ms' END,
			CASE outcome WHEN 'NOW' THEN (CASE WHEN i % 100 = 0 THEN 'PENDING' ELSE 'DELIVERED' END)::notify_delivery_status WHEN 'NEVER' THEN 'SUPPRESSED' END,
			false, '{push}', $1::json, '{}'
		FROM (SELECT i, $4::bigint AS users, $2::bigint + i * 10000000 / $3::bigint AS ms,
				(ARRAY['NOW', 'NOW', 'NOW', 'LATER', 'NEVER'])[1 + i % 5]::notify_outcome AS outcome
			FROM generate_series(0, $3::bigint - 1) i) made`, body, int64(start), int64(records), int64(records/100))
	run(t, l, fmt.Sprintf("ALTER TABLE notify_decisions ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')", table,
		midnight(start).Time().Format(time.RFC3339), (midnight(start)+day).Time().Format(time.RFC3339)))
	run(t, l, `INSERT INTO notify_event_keys SELECT event_id, user_id, defer_count, decision_id,
			CASE WHEN seq = 3 THEN md5(user_id)::uuid END, outcome, outcome = 'NOW' AND seq % 1000 <> 1, decided_at FROM `+table)
	run(t, l, `INSERT INTO notify_deferrals SELECT event_id, user_id, 1, defer_until, NULL, NULL, NULL, event::text, defer_until FROM `+table+` WHERE outcome = 'LATER'`)
	run(t, l, `INSERT INTO notify_users SELECT user_id, max(seq), '', max(decided_at) FROM `+table+` GROUP BY user_id`)
	run(t, l, "VACUUM ANALYZE")
	must.OK(t, l.pool.QueryRow(ctx, "SELECT decision_id FROM notify_event_keys WHERE outcome = 'NOW' AND digest_id IS NULL AND user_id = 'user-7' LIMIT 1").Scan(&single))
	must.OK(t, l.pool.QueryRow(ctx, "SELECT digest_id FROM notify_event_keys WHERE digest_id IS NOT NULL LIMIT 1").Scan(&digest))
	return single, digest
}

// flushes are commits of 20 users each, at most 50 per second, until stop.
type flushes struct {
	done  chan struct{}
	group sync.WaitGroup
	mu    sync.Mutex
	times []time.Duration
}

func startFlushes(t *testing.T, l *Ledger, now engine.Millis) *flushes {
	f := &flushes{done: make(chan struct{})}
	f.group.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-f.done:
				return
			case <-ticker.C:
			}
			var changes []notify.Change
			for user := range 20 {
				changes = append(changes, oneAt(fmt.Sprint("new ", i, " ", user), 0, notify.Now, now))
			}
			began := time.Now()
			for _, err := range l.Commit(ctx, changes, nil) {
				if err != nil {
					t.Errorf("a commit failed: %v", err)
				}
			}
			f.mu.Lock()
			f.times = append(f.times, time.Since(began))
			f.mu.Unlock()
		}
	})
	return f
}

// take returns what was measured since the last call.
func (f *flushes) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.times
	f.times = nil
	if slices.Sort(all); len(all) == 0 {
		return "none"
	}
	at := func(share float64) time.Duration {
		return all[int(share*float64(len(all)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%d, p50 %v, p99 %v, longest %v", len(all), at(.5), at(.99), at(1))
}

func (f *flushes) stop() {
	close(f.done)
	f.group.Wait()
}

// TestTwoWriters has two writers decide for the same 100 users as fast as they can, in
// flushes of several sizes: it logs the share of changes that conflicted, and what two
// writers commit beside what one does. No update is lost.
func TestTwoWriters(t *testing.T) {
	soak(t)
	for _, size := range []int{1, 5, 10, 20, 50} {
		alone, _ := sameUsers(t, 1, size)
		both, share := sameUsers(t, 2, size)
		t.Logf("flushes of %2d users: %4.1f %% of the changes conflicted; %.0f decisions/s, %.0f %% of one writer's %.0f",
			size, 100*share, both, 100*both/alone, alone)
	}
}

// sameUsers has writers commit for 3 s and returns their decisions per second and the
// share of changes that conflicted.
func sameUsers(t *testing.T, writers, size int) (perSecond, share float64) {
	t.Helper()
	l := openNew(t)
	var changes, conflicts atomic.Int64
	won := make([]atomic.Int64, 100)
	var group sync.WaitGroup
	began := time.Now()
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(w)))
			for time.Since(began) < 3*time.Second {
				asks := make([]notify.Ask, size)
				users := random.Perm(len(won))[:size]
				for i, user := range users {
					asks[i].User = fmt.Sprint(user)
				}
				standings, err := l.Load(ctx, asks)
				if err != nil {
					t.Error(err)
					return
				}
				all := make([]notify.Change, size)
				for i := range asks {
					all[i] = oneAt(asks[i].User, standings[i].Version, notify.Now, start)
				}
				changes.Add(int64(size))
				for i, err := range l.Commit(ctx, all, nil) {
					if err == nil {
						won[users[i]].Add(1)
					} else {
						conflicts.Add(1)
					}
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began).Seconds()
	var total int64
	for user := range won {
		standing, err := l.Load(ctx, []notify.Ask{{User: fmt.Sprint(user)}})
		if must.OK(t, err); standing[0].Version != won[user].Load() {
			t.Errorf("user %d has version %d, and %d decisions were acknowledged", user, standing[0].Version, won[user].Load())
		}
		total += won[user].Load()
	}
	return float64(total) / took, float64(conflicts.Load()) / float64(changes.Load())
}
