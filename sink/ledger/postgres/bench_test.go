package postgres

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/similar"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/sink/ledgertest"
)

// BenchmarkFlush measures the calls of a flush of 50 users of 20,000, a decision each,
// on a server that waits for the disk: load and commit (with the marks of the flush
// before it), and how many decisions a connection makes per second.
// KEYFOLD_BENCH_STATEMENTS=1 prints the time of the statements in the functions, and
// how many updates of users stayed on their page.
func BenchmarkFlush(b *testing.B) {
	const users, perFlush = 20_000, 50
	settings := []string{"fsync=on", "shared_buffers=256MB", "max_wal_size=4GB"}
	detailed := os.Getenv("KEYFOLD_BENCH_STATEMENTS") != ""
	if detailed {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=all")
	}
	server := pgtest.Start(b, settings...)
	l := openAt(b, server.URL("postgres"))
	must.OK(b, l.Setup(ctx))
	_, err := l.EnsurePartitions(ctx, start, 2)
	must.OK(b, err)
	f := &flusher{l: l, random: rand.New(rand.NewPCG(1, 2)), users: users, perFlush: perFlush, now: start}
	for range users / perFlush { // most users are there
		f.flush(b)
	}
	run(b, l, "VACUUM ANALYZE")
	if detailed {
		run(b, l, "CREATE EXTENSION pg_stat_statements")
	}
	f.load, f.commit = 0, 0
	b.ResetTimer()
	for b.Loop() {
		f.flush(b)
	}
	n := float64(b.N)
	b.ReportMetric(f.load.Seconds()*1e3/n, "load-ms")
	b.ReportMetric(f.commit.Seconds()*1e3/n, "commit-ms")
	b.ReportMetric(n*perFlush/(f.load+f.commit).Seconds(), "decisions/s")
	b.ReportMetric(n*perFlush/f.commit.Seconds(), "committed/s")
	if detailed {
		f.printStatements(b)
	}
}

// flusher makes flushes of users that it draws.
type flusher struct {
	l               *Ledger
	random          *rand.Rand
	users, perFlush int
	now             engine.Millis
	marks           []notify.DispatchMark
	load, commit    time.Duration // in calls
}

func (f *flusher) flush(b *testing.B) {
	f.now += 10
	picked := map[string]bool{}
	for len(picked) < f.perFlush {
		picked[fmt.Sprint("user-", f.random.IntN(f.users))] = true
	}
	var asks []notify.Ask
	var events []*notify.Notification
	for user := range picked {
		e := ledgertest.Event(user, notify.Update, f.now)
		events = append(events, e)
		asks = append(asks, notify.Ask{User: user, Events: []uuid.UUID{e.ID}})
	}
	began := time.Now()
	standings, err := f.l.Load(ctx, asks)
	f.load += time.Since(began)
	must.OK(b, err)
	changes := make([]notify.Change, len(asks))
	for i, e := range events {
		changes[i] = f.change(e, &standings[i])
	}
	began = time.Now()
	answers := f.l.Commit(ctx, changes, f.marks)
	f.commit += time.Since(began)
	f.marks = nil
	for i, err := range answers {
		must.OK(b, err)
		if r := &changes[i].Decided[0].Record; r.Outcome == notify.Now {
			f.marks = append(f.marks, notify.DispatchMark{Event: r.EventID})
		}
	}
}

// change decides 6 of 10 events NOW, 2 LATER and 2 NEVER, for users of whom 20 sends and
// 20 marks are stored.
func (f *flusher) change(e *notify.Notification, s *notify.Standing) notify.Change {
	outcome := []notify.Outcome{notify.Now, notify.Now, notify.Now, notify.Later, notify.Never}[f.random.IntN(5)]
	d := ledgertest.Decide(e, s.Version+1, 0, outcome, f.now)
	d.Record.Print = similar.Of(e.Type.String(), fmt.Sprint("order ", f.random.IntN(1e9)), "Your order has left us", nil, "")
	state := s.State
	if state == nil {
		state = &notify.State{}
		for range 20 {
			state.Sends = append(state.Sends, f.now)
			state.Marks = append(state.Marks, notify.Mark{EventID: uuid.New(), Type: e.Type, At: f.now, Print: d.Record.Print})
		}
	}
	state.DecidedAt = f.now
	state.Sends = append(state.Sends[1:], f.now)
	state.Marks = append(state.Marks[1:], notify.Mark{EventID: e.ID, Type: e.Type, At: f.now, Print: d.Record.Print})
	return notify.Change{User: e.UserID, Version: s.Version, State: state, Decided: []notify.Decided{d}}
}

func (f *flusher) printStatements(b *testing.B) {
	rows, err := f.l.pool.Query(ctx, `SELECT format('%s ms, %s calls, %s kB of WAL: %s', round(total_exec_time), calls, round(wal_bytes / 1024),
			left(regexp_replace(query, '\s+', ' ', 'g'), 60))
		FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 10`)
	must.OK(b, err)
	for rows.Next() {
		var line string
		must.OK(b, rows.Scan(&line))
		fmt.Fprintln(os.Stderr, line)
	}
	var updates, hot int64
	must.OK(b, f.l.pool.QueryRow(ctx, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'notify_users'").Scan(&updates, &hot))
	fmt.Fprintf(os.Stderr, "%d of %d updates of users stayed on their page\n", hot, updates)
}
