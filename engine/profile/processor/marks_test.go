package processor_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/source/stream/inhand"
)

var errAway = errors.New("the embedding API failed")

const someStream = profile.StreamID(1 << 8)

// log is a session that delivers letters.
type log struct {
	*inhand.Set
	awaited []int32
	confirm bool // copies are confirmed when they are waited for
	copied  []uint64
}

func newLog() *log { return &log{Set: inhand.New(someStream, 0), confirm: true} }

// AwaitCopies implements [profile.Reader].
func (l *log) AwaitCopies(_ context.Context, user int32) {
	l.awaited = append(l.awaited, user)
	for _, o := range l.copied {
		if l.confirm {
			l.Settle(o)
		}
	}
	l.copied = nil
}

// read makes deliveries of letters, at these offsets of the log.
func (l *log) read(offsets []uint64, letters ...*letter) profile.Batch {
	b := batch(letters...)
	for i := range b.Deliveries {
		d := &b.Deliveries[i]
		d.Place, d.Reader = profile.Place{Stream: someStream, Offset: offsets[i]}, l
		l.Deliver(offsets[i], b.UserID, 1)
		d.Settler = settler{l, letters[i], offsets[i]}
	}
	return b
}

type settler struct {
	log    *log
	letter *letter
	offset uint64
}

func (s settler) Settle(v engine.Verdict) {
	s.letter.Settle(v)
	switch v.Outcome.Settlement() {
	case engine.Ack:
		s.log.Settle(s.offset)
	case engine.Leave:
	default:
		s.log.Copy(s.offset, s.letter.event.UserID)
		s.log.copied = append(s.log.copied, s.offset)
	}
}

// copyOf makes a queue's delivery of an event that stands at an offset of the log.
func copyOf(l *letter, offset uint64) profile.Delivery {
	d := batch(l).Deliveries[0]
	d.Place = profile.Place{Stream: someStream, Offset: offset}
	return d
}

func marksOf(t *testing.T, f *fixture, user int32) profile.Mark {
	t.Helper()
	p := f.profile(t, user)
	if p == nil || len(p.Marks) != 1 {
		t.Fatalf("the profile is %+v, want one with one mark", p)
	}
	return p.Marks[0]
}

// What is read again, from any offset, changes nothing and writes nothing, though no id is
// kept of it.
func TestReadAgain(t *testing.T) {
	f := newFixture(t, func(c *processor.Config) { c.IDs.Min, c.IDs.Keep, c.IDs.Max = 1, 1, 1 })
	l, offsets := newLog(), []uint64{0, 4, 9}
	letters := func() []*letter {
		return []*letter{view(1, "a", 1, 1000), view(1, "b", 2, 2000), view(1, "c", 3, 3000)}
	}
	for i, first := range letters() {
		f.apply(l.read(offsets[i:i+1], first))
		first.want(t, engine.Folded)
	}
	before := f.profile(t, 1)
	if len(before.Applied.IDs) != 1 || before.Marks[0].Next != 10 {
		t.Fatalf("%d ids, marks %+v", len(before.Applied.IDs), before.Marks)
	}
	again := letters()
	f.apply(newLog().read(offsets, again...))
	for _, l := range again {
		l.want(t, engine.Duplicate)
	}
	if after := f.profile(t, 1); after != before {
		t.Errorf("version %d was written", after.Version)
	}
	if n := f.Stats().Replayed.Load(); n != 3 {
		t.Errorf("%d replayed", n)
	}
}

// An event that a later one overtakes is a hole, and is folded when it comes.
func TestOvertakenEvent(t *testing.T) {
	f, l := newFixture(t), newLog()
	slow, quick := view(1, "slow", 1, 1000), view(1, "quick", 2, 2000)
	waits := l.read([]uint64{3}, slow)
	f.apply(l.read([]uint64{5}, quick))
	if m := marksOf(t, f, 1); m.Next != 6 || !slices.Equal(m.Holes, []uint64{3}) {
		t.Errorf("mark %+v", m)
	}
	f.apply(waits)
	slow.want(t, engine.Folded)
	if m := marksOf(t, f, 1); len(m.Holes) > 0 {
		t.Errorf("mark %+v", m)
	}
}

// The copy of an event that leaves its batch is confirmed before the write whose mark passes
// the event; one that is not stays a hole.
func TestCopyBeforeMark(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		f, l := newFixture(t), newLog()
		l.confirm = confirmed
		f.ports.vector = func(key string) (engine.Resolved, bool) {
			return engine.Resolved{Err: errAway}, key == "phrase away"
		}
		leaves, stays := search(1, "leaves", "away", 1000), view(1, "stays", 1, 2000)
		f.apply(l.read([]uint64{3, 5}, leaves, stays))
		if v := leaves.want(t, engine.Retry); v.AbsentAt == 0 {
			t.Error("the copy has no bound")
		}
		stays.want(t, engine.Folded)
		m := marksOf(t, f, 1)
		if m.Next != 6 || slices.Equal(m.Holes, []uint64{3}) == confirmed || len(l.awaited) != 1 {
			t.Errorf("confirmed %v: mark %+v, %d waits", confirmed, m, len(l.awaited))
		}
	}
}

// A batch of copies alone moves the mark of a profile that is there, and makes none.
func TestMarkAlone(t *testing.T) {
	f, l := newFixture(t), newLog()
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		return engine.Resolved{Err: errAway}, key == "phrase away"
	}
	f.apply(l.read([]uint64{1}, search(1, "a", "away", 1000)))
	if p := f.profile(t, 1); p != nil {
		t.Fatalf("a profile was made of nothing: %+v", p)
	}
	f.apply(l.read([]uint64{2}, view(1, "b", 1, 1000)))
	before := f.profile(t, 1)
	f.apply(l.read([]uint64{4}, search(1, "c", "away", 1000)))
	after := f.profile(t, 1)
	if after.Version != before.Version+1 || after.Marks[0].Next != 5 || after.EventCount != before.EventCount || after.Updated != before.Updated {
		t.Errorf("%+v became %+v", before, after)
	}
}

// Events without a product write nothing: read again, they are judged again.
func TestMissingMarksNothing(t *testing.T) {
	f, l := newFixture(t), newLog()
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		return engine.Resolved{Err: engine.ErrMissing}, key == "product 9"
	}
	f.apply(l.read([]uint64{1}, view(1, "a", 1, 1000)))
	missing := view(1, "b", 9, 1000)
	f.apply(l.read([]uint64{2}, missing))
	missing.want(t, engine.ProductMissing)
	if p := f.profile(t, 1); p.Version != 1 || p.Marks[0].Next != 2 {
		t.Errorf("version %d, marks %+v", p.Version, p.Marks)
	}
}

// What a publisher sent twice is known by its id as long as that is kept, and by its mark
// from then on.
func TestRepeatGetsAMark(t *testing.T) {
	f, l := newFixture(t), newLog()
	f.apply(l.read([]uint64{1}, view(1, "a", 1, 1000)))
	repeat := view(1, "a", 1, 1000)
	f.apply(l.read([]uint64{6}, repeat))
	repeat.want(t, engine.Duplicate)
	if p := f.profile(t, 1); p.Version != 2 || p.Marks[0].Next != 7 || p.EventCount != 1 {
		t.Errorf("version %d, marks %+v, %d events", p.Version, p.Marks, p.EventCount)
	}
}

// The copy of an event that its mark passed is all that is left of the event: read again
// beside it, the event is a duplicate and the copy is folded.
func TestCopyOfAMarkedEvent(t *testing.T) {
	f, l := newFixture(t), newLog()
	f.apply(l.read([]uint64{1, 3}, view(1, "a", 1, 1000), view(1, "c", 3, 1000)))
	read, copied := view(1, "b", 2, 2000), view(1, "b", 2, 2000)
	copied.firstSeen = engine.Now()
	other := f.engine(t)
	f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
		f.ports.swap = nil // meanwhile another worker's mark passes the event
		fourth := view(1, "d", 4, 1000)
		other.Apply(ctx, []profile.Batch{l.read([]uint64{7}, fourth)})
		return []error{engine.ErrConflict}
	}
	b := l.read([]uint64{5}, read)
	l.Settle(5) // its session is over, and what it held is the copy
	b.Deliveries = append(b.Deliveries, copyOf(copied, 5))
	f.apply(b)
	read.want(t, engine.Duplicate)
	copied.want(t, engine.Folded)
	if p := f.profile(t, 1); p.EventCount != 4 {
		t.Errorf("%d events are folded", p.EventCount)
	}
}

// An old copy gets no newer bound from what its publisher sent again.
func TestOldCopyBesideARepeat(t *testing.T) {
	f, l := newFixture(t, func(c *processor.Config) { c.IDs.Min, c.IDs.Keep, c.IDs.Max = 1, 1, 1 }), newLog()
	f.apply(l.read([]uint64{1}, view(1, "a", 1, 1000)))
	f.apply(l.read([]uint64{2}, view(1, "b", 2, 1000))) // the id of a goes
	again, old := view(1, "a", 1, 1000), view(1, "a", 1, 1000)
	old.firstSeen = f.profile(t, 1).Applied.Floor
	b := l.read([]uint64{4}, again)
	b.Deliveries = append(b.Deliveries, copyOf(old, 1))
	f.apply(b)
	again.want(t, engine.Folded)
	if v := old.want(t, engine.Dead); v.Reason != engine.ReasonPastHorizon {
		t.Errorf("the old copy is dead for %s", v.Reason)
	}
}

// An event that was appended after the profile was written, below its mark, is of another
// stream of the same name: nothing is settled by that mark.
func TestStreamMadeAnew(t *testing.T) {
	f, l := newFixture(t), newLog()
	f.apply(l.read([]uint64{9}, view(1, "a", 1, 1000)))
	other := view(1, "b", 1, 1000)
	b := newLog().read([]uint64{2}, other)
	b.Deliveries[0].Appended = f.profile(t, 1).WrittenAt + 6*60*1000
	f.apply(b)
	other.want(t, engine.Unsettled)
	if len(f.faults) != 1 || engine.ReasonOf(f.faults[0]) != "stream_changed" {
		t.Errorf("faults %v", f.faults)
	}
	b = newLog().read([]uint64{2}, view(1, "b", 1, 1000))
	b.Deliveries[0].Appended = f.profile(t, 1).WrittenAt + 4*60*1000
	f.faults = nil
	if f.apply(b); len(f.faults) != 0 {
		t.Errorf("clocks may differ by minutes: %v", f.faults)
	}
}

// A stream whose position was lost is read in an epoch before the one that marks are of: nothing
// of it is settled, and no rebuild marks it.
//
// Promise(streams/lost-epoch)
func TestMarksOfALaterEpoch(t *testing.T) {
	f, l := newFixture(t), newLog()
	f.apply(l.read([]uint64{9}, view(1, "a", 1, 1000)))
	p := *f.profile(t, 1)
	p.Version++
	p.Marks = append(slices.Clone(p.Marks), profile.Mark{Stream: p.Marks[0].Stream | 2<<16, Next: 3})
	if err := f.store.Swap(t.Context(), []*profile.Profile{&p})[0]; err != nil {
		t.Fatal(err)
	}
	f.Engine = f.engine(t)
	read := view(1, "b", 1, 1000)
	f.apply(l.read([]uint64{10}, read))
	if read.want(t, engine.Unsettled); len(f.faults) != 1 || engine.ReasonOf(f.faults[0]) != "stream_changed" {
		t.Errorf("faults %v", f.faults)
	}
	ports := processor.Ports{Profiles: f, Products: resolver[int32]{&f.ports, "product"}, Phrases: resolver[string]{&f.ports, "phrase"}}
	for epoch, refused := range []bool{true, true, false} {
		ports.Streamed = func(context.Context, int32) (profile.Streamed, error) {
			return profile.Streamed{Settled: []profile.Place{{Stream: p.Marks[0].Stream | profile.StreamID(epoch)<<16}}}, nil
		}
		e, err := processor.New(f.config, ports)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Rebuild(t.Context(), 1, &p, history(false, read)); (engine.ReasonOf(err) == "stream_changed") != refused {
			t.Errorf("rebuilt in epoch %d: %v", epoch, err)
		}
	}
}
