package cache_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
)

// fullChange is of a user with a day of sends and marks.
func fullChange(user string) notify.Change {
	d := ledgertest.Decide(ledgertest.Event(user, notify.Update, start), 1, 0, notify.Now, start)
	s := &notify.State{DecidedAt: start}
	for i := range 24 {
		at := start - engine.Millis(24-i)*3_600_000
		s.Sends = append(s.Sends, at)
		s.Marks = append(s.Marks, notify.Mark{EventID: uuid.New(), Type: notify.Update, At: at, Print: d.Record.Print})
	}
	s.LastSend[notify.Update] = start
	return notify.Change{User: user, State: s, Decided: []notify.Decided{d}}
}

// load of a cached user: the cost that takes the place of a round trip.
func BenchmarkLoadCached(b *testing.B) {
	l := cache.New(memory.New(), 1<<20)
	ask := []notify.Ask{{User: "a", Events: []uuid.UUID{uuid.New()}, Stale: true}}
	if _, err := l.Load(ctx, ask); err != nil {
		b.Fatal(err)
	}
	must.OK(b, l.Commit(ctx, []notify.Change{fullChange("a")}, nil)[0])
	b.ReportAllocs()
	for b.Loop() {
		if s, err := l.Load(ctx, ask); err != nil || s[0].Version != 1 {
			b.Fatal(s, err)
		}
	}
}

// bytes/user is what the heap grew by, estimated/user what the cache counts.
func BenchmarkMemory(b *testing.B) {
	const users = 20_000
	for b.Loop() {
		store := memory.New()
		l := cache.New(discard{store}, 1<<30)
		before := heap()
		for i := range users {
			user := fmt.Sprint("user ", i)
			_, _ = l.Load(ctx, []notify.Ask{{User: user, Stale: true}})
			l.Commit(ctx, []notify.Change{fullChange(user)}, nil)
		}
		grown := heap() - before
		_, estimated := l.Usage()
		b.ReportMetric(float64(grown)/users, "bytes/user")
		b.ReportMetric(float64(estimated)/users, "estimated/user")
		runtime.KeepAlive(l)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// discard confirms every commit and keeps nothing.
type discard struct{ *memory.Ledger }

func (discard) Commit(_ context.Context, changes []notify.Change, _ []notify.DispatchMark) []error {
	return make([]error, len(changes))
}
