package streamsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/sink/memory"
)

const (
	users      = 3
	maxCrashes = 12
	// wild is for how many steps workers crash and vectors fail; drained is when a schedule
	// that has not come to its end never will.
	wild    = 300
	drained = 100_000
)

// event is one message of a stream.
type event struct {
	profile.Event
	place profile.Place
	index int  // among all events: the component of its vector
	late  bool // workers meet it before its product
	other bool // another publisher's: no history has it
	fails bool
	slow  bool // a search that waits for its vector, and is overtaken
}

// world is one schedule: streams, a store, a queue of copies, and workers.
type world struct {
	r       *rand.Rand
	step    int
	config  processor.Config
	streams []*stream
	events  []*event
	store   *memory.Profiles
	queue   []*message
	workers []*worker
	crashes int

	rebuilds []*flight

	skipped   map[string]bool                  // message ids that were settled without their products
	dead      map[string]int                   // dead letters by message id
	duplicate map[int]bool                     // events that were settled as duplicates of folded ones, by index
	fault     error                            // the first law that was broken
	trace     func(format string, args ...any) // nil: what happens is not written
}

// stream is a log, and the position that is stored of it.
type stream struct {
	id        profile.StreamID
	events    []*event
	published int // of events: the others are stored later
	stored    uint64
}

// message is a copy of an event in a queue.
type message struct {
	event *event
	bound engine.Millis
	owner *worker // nil: it is ready
}

func newWorld(number uint64) *world {
	w := &world{
		r: rand.New(rand.NewPCG(number, 7)), config: processor.DefaultConfig(),
		skipped: map[string]bool{}, dead: map[string]int{}, duplicate: map[int]bool{},
	}
	w.makeEvents()
	c := &w.config
	c.Dimensions, c.Lambda = len(w.events), 0
	// No horizon, 0, is for what has no broker.
	c.IDs = profile.IDLimits{Retention: time.Hour, Horizon: time.Duration(1+w.r.IntN(40)) * time.Millisecond, Min: 1, Keep: 1 + w.r.IntN(4)}
	c.IDs.Max = c.IDs.Keep
	c.Pause, c.MaxPause = time.Nanosecond, time.Nanosecond
	c.CacheBytes = int64(w.r.IntN(2)) << 20
	w.store = memory.New(len(w.events))
	for _, s := range w.streams {
		s.published = w.r.IntN(len(s.events) + 1)
	}
	w.start(func(s *stream) uint64 { return 0 })
	return w
}

// makeEvents fills one stream, or two where the number of partitions changes on the way.
// Offsets have gaps, as each stored position takes one, and some events are repeats that a
// publisher sent under other offsets.
func (w *world) makeEvents() {
	n := 5 + w.r.IntN(25)
	change := n
	w.streams = []*stream{{id: 1 << 8}}
	if w.r.IntN(3) == 0 {
		change = w.r.IntN(n)
		w.streams = append(w.streams, &stream{id: 2<<8 | 1<<1})
	}
	next := make([]uint64, len(w.streams))
	for i := range n {
		s := 0
		if i >= change {
			s = 1
		}
		next[s] += uint64(w.r.IntN(3) * w.r.IntN(2))
		e := &event{Event: w.makeEvent(i), index: i, fails: w.r.IntN(6) == 0, slow: w.r.IntN(4) == 0, late: w.r.IntN(6) == 0, other: w.r.IntN(6) == 0}
		e.place = profile.Place{Stream: w.streams[s].id, Offset: next[s]}
		next[s]++
		e.name()
		w.events = append(w.events, e)
		w.streams[s].events = append(w.streams[s].events, e)
	}
}

// makeEvent returns the i-th event, which may be a repeat of an earlier one.
func (w *world) makeEvent(i int) profile.Event {
	e := profile.Event{
		UserID: int32(1 + w.r.IntN(users)), Type: profile.ProductView,
		OccurredAt: engine.Millis(1_000_000 + w.r.IntN(50)), MessageID: fmt.Sprintf("event %d", i),
	}
	if i > 0 && w.r.IntN(8) == 0 {
		of := w.events[w.r.IntN(i)]
		e.UserID, e.OccurredAt, e.MessageID = of.UserID, of.OccurredAt, of.MessageID
	}
	e.Digest = profile.DigestOf(e.MessageID)
	return e
}

// name gives the event a vector of its own: searches are those that can fail alone.
func (e *event) name() {
	if e.fails {
		e.Type, e.Phrase = profile.Search, fmt.Sprint(e.index)
		return
	}
	e.ProductID = int32(e.index + 1)
}

// start begins a worker that reads from these positions.
func (w *world) start(from func(*stream) uint64) {
	k := &worker{world: w, open: map[int32][]profile.Delivery{}}
	for _, s := range w.streams {
		k.readers = append(k.readers, newReader(k, s, from(s)))
	}
	var err error
	k.engine, err = processor.New(w.config, processor.Ports{
		Profiles: store{w}, Products: products{w}, Phrases: phrases{w},
		OnConfigError: func(err error) { w.broken("configuration: %v", err) },
	})
	if err != nil {
		panic(err)
	}
	w.workers = append(w.workers, k)
}

// run takes steps until all is settled, and reports what is wrong in the end.
func (w *world) run() error {
	for w.fault == nil && !w.idle() {
		if w.step++; w.step > drained {
			return fmt.Errorf("not settled after %d steps", drained)
		}
		w.act(w.workers[w.r.IntN(len(w.workers))])
	}
	for _, k := range w.workers {
		k.kill()
	}
	for _, f := range w.rebuilds {
		f.stop()
	}
	if w.fault != nil {
		return w.fault
	}
	return w.lost()
}

// act is one step.
func (w *world) act(k *worker) {
	switch x := w.r.IntN(100); {
	case x < 25:
		k.read()
	case x < 35:
		k.close()
	case x < 72:
		k.advance()
	case x < 80:
		k.confirm()
	case x < 85:
		w.storePosition(k)
	case x < 92:
		w.deliverCopy(k)
	case x < 94 && w.step < wild && w.crashes < maxCrashes:
		w.crash()
	case x < 96 && w.step < wild && len(w.rebuilds) < 2:
		w.rebuilds = append(w.rebuilds, w.rebuild(int32(1+w.r.IntN(users))))
	case x < 98:
		w.rebuilds = w.advance(w.rebuilds)
	case x < 99:
		w.publish()
	case len(w.workers) > 1:
		w.workers[0].kill()
		w.workers = w.workers[1:]
	}
}

// publish stores the next event of a stream.
func (w *world) publish() {
	s := w.streams[w.r.IntN(len(w.streams))]
	s.published = min(s.published+1, len(s.events))
}

// storePosition stores where the worker would begin again, right or not: one that is beside
// its successor stores a lower one.
func (w *world) storePosition(k *worker) {
	for i, s := range w.streams {
		s.stored = k.readers[i].Position()
	}
}

// crash begins a worker at the stored positions, or at 0 where those are lost or rewound. The
// one before is killed, or goes on beside it.
func (w *world) crash() {
	w.crashes++
	w.note("crash")
	rewound := w.r.IntN(5) == 0
	if w.r.IntN(2) == 0 {
		for _, k := range w.workers {
			k.kill()
		}
		w.workers = nil
	}
	w.start(func(s *stream) uint64 {
		if rewound {
			return 0
		}
		return s.stored
	})
}

// deliverCopy gives a worker a copy, or gives one back whose owner is silent.
func (w *world) deliverCopy(k *worker) {
	if len(w.queue) == 0 {
		return
	}
	m := w.queue[w.r.IntN(len(w.queue))]
	if m.owner != nil {
		if w.r.IntN(8) == 0 {
			m.owner = nil
		}
		return
	}
	m.owner = k
	w.note("%p gets a copy of %v, bound %d", k, m.event.place, m.bound)
	d := profile.Delivery{Event: m.event.Event, Place: m.event.place, FirstSeen: m.bound, Settler: engine.Once(&copySettler{m, k})}
	k.open[m.event.UserID] = append(k.open[m.event.UserID], d)
}

func (w *world) idle() bool {
	return len(w.queue)+len(w.rebuilds) == 0 && !slices.ContainsFunc(w.streams, func(s *stream) bool { return s.published < len(s.events) }) &&
		!slices.ContainsFunc(w.workers, func(k *worker) bool { return !k.idle() })
}

func (w *world) broken(format string, args ...any) {
	if w.fault == nil {
		w.fault = fmt.Errorf("step %d: %s", w.step, fmt.Sprintf(format, args...))
	}
}

// note writes down what happens.
func (w *world) note(format string, args ...any) {
	if w.trace != nil {
		w.trace("%4d %s", w.step, fmt.Sprintf(format, args...))
	}
}

// now is the store's time.
func (w *world) now() engine.Millis { return engine.Millis(2_000_000 + w.step) }

// lost reports an id of which nothing is folded and no dead letter is there.
func (w *world) lost() error {
	for _, e := range w.events {
		if !w.folded(e.UserID)[e.MessageID] && w.dead[e.MessageID] == 0 && !w.skipped[e.MessageID] {
			return fmt.Errorf("%s at %v is lost", e.MessageID, e.place)
		}
	}
	return nil
}

// noteDuplicate notes that an event was settled as another of its id was folded, and nothing
// of it is left to come.
func (w *world) noteDuplicate(e *event) {
	copied := slices.ContainsFunc(w.queue, func(m *message) bool { return m.event == e })
	if !copied && w.folded(e.UserID)[e.MessageID] {
		w.duplicate[e.index] = true
	}
}

// folded returns the ids that are in a user's profile.
func (w *world) folded(user int32) map[string]bool {
	p, _ := w.store.Load(context.Background(), []int32{user})
	ids := map[string]bool{}
	for i, n := range w.counts(p[0]) {
		if n > 0 {
			ids[w.events[i].MessageID] = true
		}
	}
	return ids
}

// counts returns how often each event is in a profile: every event has a component.
func (w *world) counts(p *profile.Profile) []int {
	counts := make([]int, len(w.events))
	if p == nil {
		return counts
	}
	for i, e := range w.events {
		weight, _ := w.config.Weights.Of(e.Type)
		counts[i] = int(p.Vector[i]*p.Mass/weight + 0.5)
	}
	return counts
}

// check compares a profile with the one it replaced.
func (w *world) check(before, after *profile.Profile) {
	old := w.counts(before)
	for i, n := range w.counts(after) {
		e := w.events[i]
		switch {
		case n > 1:
			w.broken("%s at %v is folded %d times", e.MessageID, e.place, n)
		case n > old[i] && w.duplicate[i]:
			w.broken("%s at %v is folded after it was settled as a duplicate", e.MessageID, e.place)
		case n > old[i] && before != nil && slices.Contains(before.Applied.IDs, e.Digest.ID()):
			w.broken("%s at %v is folded though its id is in the profile", e.MessageID, e.place)
		case n < old[i]:
			w.broken("%s at %v went from the profile", e.MessageID, e.place)
		}
	}
}

// String shows the schedule's events.
func (w *world) String() string {
	var b strings.Builder
	for _, e := range w.events {
		fmt.Fprintf(&b, "%v user %d %s fails=%v slow=%v\n", e.place, e.UserID, e.MessageID, e.fails, e.slow)
	}
	return b.String()
}
