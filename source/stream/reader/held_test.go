package reader

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/shard"
	"keyfold/source/rabbit"
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
			c := chunks[i]
			if err := s.handOver(b.Context(), &c); err != nil {
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

// An event is made again as it was parsed, with the message of its copies, after its chunk's
// memory was given to others: bodies with and without an outline, with headers and with an
// id of their own.
func TestEventsAreMadeAgainWithoutTheirChunk(t *testing.T) {
	headers := map[string]any{rabbit.HeaderFirstSeen: int64(1_770_733_000_000), "x": "y"}
	usual := bodyOf(7, 3)
	bodies := []struct {
		body    []byte
		headers map[string]any
	}{
		{usual, nil},
		{bodyOf(8, 3), nil},
		{usual, headers},
		{bytes.Replace(usual, []byte("user_id"), []byte(`\u0075ser_id`), 1), nil},
		{bytes.Replace(usual, []byte(`,"message_id"`), []byte(`,"other":{},"message_id"`), 1), nil},
		{[]byte(`{"user_id":1,"event_type":"search","search_phrase":"mug","occurred_at":"2026-02-10T14:30:00Z","message_id":"s"}`), nil},
		{[]byte(`{"user_id":1,"event_type":"search","search_phrase":"mug","occurred_at":"2026-02-10T14:30:00Z"}`), headers},
		{[]byte(`{"user_id":1,"event_type":"product_click","product_id":5,"occurred_at":"2026-02-10T14:30:00Z"}`), nil},
	}
	var messages [][]byte
	for _, b := range bodies {
		m, err := stream.AppendMessage(nil, b.body, b.headers)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	c := stream.NewChunk("s", 40, 1_770_733_000_001, messages...)
	s := aSession(nil)
	if _, err := s.parse(&c, 0); err != nil || len(s.deliveries) != len(bodies) {
		t.Fatalf("%d events: %v", len(s.deliveries), err)
	}
	scribble(t, &c)
	for i, b := range bodies {
		d := s.deliveries[i]
		want, err := profile.ParseEvent(b.body, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		e := d.Settler.(*event)
		if d.Event != want || d != e.Delivery() {
			t.Errorf("%s:\nheld as %+v\nwant    %+v", b.body, d, want)
		}
		if d.Place.Offset != 40+uint64(i) || d.Appended != c.Timestamp || (d.FirstSeen != 0) != (b.headers != nil) {
			t.Errorf("%s: held as %+v", b.body, d)
		}
		o := e.original()
		if string(o.Body) != string(b.body) || o.Headers[rabbit.HeaderStream] == nil || (o.Headers["x"] == "y") != (b.headers != nil) {
			t.Errorf("%s: a copy has the headers %v and the body %s", b.body, o.Headers, o.Body)
		}
	}
	if e := s.deliveries[0].Settler.(*event); e.whole != nil {
		t.Error("a usual body is kept whole")
	}
}

// scribble overwrites a chunk's messages.
func scribble(t *testing.T, c *stream.Chunk) {
	t.Helper()
	err := c.Each(func(_ uint64, m stream.Message) error {
		body, err := m.Body()
		for i := range body {
			body[i] = '#'
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Bodies that have nothing in common do not have outlines kept of them for ever.
func TestOutlinesAreFew(t *testing.T) {
	var o outlines
	for i := range 10 * maxMisses {
		o.of(fmt.Appendf(o.room[:0], "body %d", i))
	}
	if len(o.known) != maxOutlines || o.of([]byte("body 1")) != nil {
		t.Errorf("%d outlines are known", len(o.known))
	}
}
