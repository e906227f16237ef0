package sqlite

import (
	"fmt"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
)

// BenchmarkCommit measures durable decisions: 64 users with 10 turns each per call.
func BenchmarkCommit(b *testing.B) {
	const users, turns = 64, 10
	l := openNew(b)
	versions := make([]int64, users)
	b.ReportAllocs()
	b.ResetTimer()
	for call := range b.N {
		b.StopTimer()
		changes := make([]notify.Change, users)
		for i := range changes {
			changes[i] = benchChange(fmt.Sprint("user ", i), versions[i], turns, now+engine.Millis(call))
			versions[i] += turns
		}
		b.StartTimer()
		for _, err := range l.Commit(ctx, changes, nil) {
			must.OK(b, err)
		}
	}
	b.ReportMetric(float64(b.N*users*turns)/b.Elapsed().Seconds(), "records/s")
}

func benchChange(user string, version int64, turns int, at engine.Millis) notify.Change {
	c := notify.Change{User: user, Version: version, State: &notify.State{DecidedAt: at}}
	for i := range turns {
		outcome := notify.Outcome(i%3 + 1)
		d := ledgertest.Decide(ledgertest.Event(user, notify.Update, at), version+int64(i)+1, 0, outcome, at)
		d.Record.Facts = notify.Facts{
			Counts: [3]int{1, 2, 3}, Caps: notify.Caps{3, 6, 20}, Frees: [3]engine.Millis{0, at, at}, Horizon: at, Tzdata: "2026b",
			Parts: notify.Parts{Base: .5, Hint: .5, Recency: .25, Calm: .75},
		}
		c.Decided = append(c.Decided, d)
	}
	for i := range 64 {
		c.State.Sends = append(c.State.Sends, at-engine.Millis(64-i))
		c.State.Marks = append(c.State.Marks, notify.Mark{EventID: c.Decided[0].Event.ID, Type: notify.Update, At: at})
	}
	return c
}

// BenchmarkRecords reads all records, page by page.
func BenchmarkRecords(b *testing.B) {
	l := openNew(b)
	for user := range 100 {
		must.OK(b, l.Commit(ctx, []notify.Change{benchChange(fmt.Sprint(user), 0, 100, now+engine.Millis(user))}, nil)[0])
	}
	b.ResetTimer()
	n := 0
	for range b.N {
		for _, err := range l.Records(ctx, ledger.Filter{}) {
			must.OK(b, err)
			n++
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}
