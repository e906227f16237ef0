package reader

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/shard"
	"keyfold/source/stream"
	"keyfold/source/stream/inhand"
)

// bodyOf is an event as keyfold publishes it.
func bodyOf(i, users int) []byte {
	return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","search_phrase":null,"product_id":%d,"occurred_at":"2026-02-10T14:30:00.123+00:00",`+
		`"metadata":{"device":"mobile"},"message_id":"%064x","version":"1.0"}`, 1+i*7919%users, 1+i%1000, i)
}

// chunksOf makes chunks of events, as many in each as a broker stores together under load.
func chunksOf(tb testing.TB, events, users int) (chunks []stream.Chunk) {
	tb.Helper()
	const size = 500
	for from := 0; from < events; from += size {
		var messages [][]byte
		for i := from; i < min(events, from+size); i++ {
			m, err := stream.AppendMessage(nil, bodyOf(i, users), nil)
			if err != nil {
				tb.Fatal(err)
			}
			messages = append(messages, m)
		}
		chunks = append(chunks, stream.NewChunk("s", uint64(from), engine.Now(), messages...))
	}
	return chunks
}

// windows are users' windows that stay open.
func windows(tb testing.TB) *shard.Router[int32, profile.Held] {
	tb.Helper()
	c := shard.DefaultConfig()
	c.Window, c.MaxDelay, c.MaxHeld, c.MaxHeldBytes = time.Hour, time.Hour, 1<<30, 1<<40
	r, err := shard.New(c, shard.HashInt32, func(_ context.Context, closed []shard.Batch[int32, profile.Held]) {
		for i := range closed {
			for _, held := range closed[i].Items {
				d := held.Delivery()
				d.Settler.Settle(engine.Verdict{Outcome: engine.Folded})
			}
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// aSession is a session whose events go to windows.
func aSession(r *shard.Router[int32, profile.Held]) *session {
	const id = profile.StreamID(1 << 8)
	deliver := func(ctx context.Context, all []profile.Delivery) error {
		items := make([]shard.Item[int32, profile.Held], len(all))
		for i := range all {
			held, _ := all[i].Hold()
			items[i] = shard.Item[int32, profile.Held]{Key: all[i].Event.UserID, Value: held, Bytes: all[i].Bytes}
		}
		return r.Submit(ctx, items)
	}
	owner := &Reader{held: newHeld(1 << 40)}
	return &session{reader: &streamReader{owner: owner, deliver: deliver}, id: id, set: inhand.New(id, 0), ended: make(chan struct{})}
}

// hold has events read and held in windows, and returns what they take of the heap.
func hold(tb testing.TB, events, users int) (s *session, r *shard.Router[int32, profile.Held], bytes int64) {
	tb.Helper()
	r = windows(tb)
	s = aSession(r)
	before := live()
	for _, c := range chunksOf(tb, events, users) {
		if err := s.handOver(tb.Context(), &c); err != nil {
			tb.Fatal(err)
		}
		for r.Stats().WaitingItems < int(c.Next()) { // else mailboxes grow, which are no event's
			runtime.Gosched()
		}
	}
	return s, r, live() - before
}

// live is how many bytes of the heap are in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What is reckoned for held events is about what they take, at one event of each user or many.
//
// Promise(bounds/held)
func TestHeldBytesAreReckonedAsTheyAre(t *testing.T) {
	if testing.Short() {
		t.Skip("measures the heap")
	}
	const events = 100_000
	for _, users := range []int{events / 30, events / 10, events / 3, events / 2, events} {
		s, r, took := hold(t, events, users)
		reckoned := s.reader.owner.held.now()
		t.Logf("%d users: %d bytes an event, reckoned %d", users, took/events, reckoned/events)
		if took > reckoned/4*5 || took < reckoned/2 {
			t.Errorf("%d users: an event takes %d bytes, and %d are reckoned", users, took/events, reckoned/events)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := s.reader.owner.held.now(); left != 0 {
			t.Errorf("%d bytes are reckoned of nothing", left)
		}
	}
}

// BenchmarkHeld is what an event costs from its chunk to its window and to its verdict, and
// what it takes in memory meanwhile.
func BenchmarkHeld(b *testing.B) {
	const events, users = 100_000, 10_000
	chunks := chunksOf(b, events, users)
	b.ReportAllocs()
	for b.Loop() {
		r := windows(b)
		s := aSession(r)
		for i := range chunks {
			if err := s.handOver(b.Context(), &chunks[i]); err != nil {
				b.Fatal(err)
			}
		}
		if err := r.Drain(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
	_, r, bytes := hold(b, events, users)
	b.ReportMetric(float64(bytes)/events, "B/event")
	if err := r.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
}
