package shard

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
)

// Chunk is how many items an application submits at once, all or none: far below any held
// budget, so that a chunk never has to wait for all of it.
const Chunk = 256

// ErrDraining is what Submit returns once Drain has begun.
var ErrDraining = errors.New("shard: router is draining")

// Router spreads items over its shards. All methods may be called at any time
// from any goroutine. A router that is no longer wanted must be drained: its
// goroutines live until then.
type Router[K comparable, V any] struct {
	config   Config
	hash     func(K) uint64
	handler  Handler[K, V]
	actors   []*actor[K, V]
	tokens   chan struct{} // one per flush that may start
	budget   budget
	pressure pressure
	stats    counters
	started  time.Time
	bundles  sync.Pool // of *byShard

	// gate orders Submit against what stops it: items are handed over under
	// its read lock (the write lock on the event clock, whose order they make),
	// so that once a refusal is set nothing can come after.
	gate    sync.RWMutex
	refusal error // guarded by gate
	clock   int64 // guarded by gate; event clock only

	// Two contexts in effect: halt stops starting flushes, ctx stops the
	// handlers that run.
	halt   chan struct{}
	ctx    context.Context
	cancel context.CancelCauseFunc

	failed     chan struct{}
	failure    error // written before failed is closed
	haltOnce   sync.Once
	failOnce   sync.Once
	goroutines conc.WaitGroup // actors, and the flushes they started
	stopped    chan struct{}  // closed when they are gone
}

// New starts a router. hash spreads the keys over the shards ([HashInt32],
// [HashString]); handle gets the closed windows.
func New[K comparable, V any](config Config, hash func(K) uint64, handle Handler[K, V]) (*Router[K, V], error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	r := &Router[K, V]{
		config:   config,
		hash:     hash,
		handler:  handle,
		tokens:   make(chan struct{}, config.Flushes),
		pressure: pressure{limit: config.held(), shards: int64(config.Shards)},
		started:  time.Now(),
		clock:    -horizon,
		halt:     make(chan struct{}),
		failed:   make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	r.bundles.New = func() any { return new(byShard) }
	r.budget.limit = config.held()
	r.budget.onDemand = func() { r.signalPressure(nil) }
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	for range config.Flushes {
		r.tokens <- struct{}{}
	}
	for range config.Shards {
		r.actors = append(r.actors, newActor(r))
	}
	r.start()
	return r, nil
}

func (r *Router[K, V]) start() {
	for _, a := range r.actors {
		r.goroutines.Go(func() {
			// An actor's own panic (a key that cannot be hashed) is a failure too.
			if err := catchPanics("actor", a.run); err != nil {
				r.fail(err)
			}
		})
	}
	go func() {
		r.goroutines.Wait()
		r.cancel(nil)
		close(r.stopped)
	}()
}

// Submit hands items over, in order per key. It takes all of them or none: on
// an error none was taken. The slice is the caller's again when it returns.
//
// It blocks while the held budget has no room for all of the items, until ctx
// ends, Drain begins ([ErrDraining]) or the router fails (the error of Err).
// Callers are served in the order in which they came. Items beyond the whole budget are let in
// once nothing else is held: see [Chunk].
//
// On the event clock the order of the calls is the order of the items:
// concurrent callers make groups that do not repeat.
func (r *Router[K, V]) Submit(ctx context.Context, items []Item[K, V]) error {
	if len(items) == 0 {
		return nil
	}
	c := r.bundles.Get().(*byShard)
	defer r.bundles.Put(c)
	r.split(c, items)
	need := weigh(items)
	if err := r.budget.acquire(ctx, need); err != nil {
		return err
	}
	if err := r.deliver(c, items); err != nil {
		r.budget.release(need)
		return err
	}
	return nil
}

// split chains the items by shard: the high half of hash x shards, which needs
// no division and no power of two.
func (r *Router[K, V]) split(c *byShard, items []Item[K, V]) {
	shards := len(r.actors)
	c.reset(shards, len(items))
	for i := range items {
		shard, _ := bits.Mul64(r.hash(items[i].Key), uint64(shards))
		c.add(int(shard), i)
	}
}

// deliver puts items into their mailboxes, all or none.
func (r *Router[K, V]) deliver(c *byShard, items []Item[K, V]) error {
	if r.config.Clock == EventClock {
		r.gate.Lock()
		defer r.gate.Unlock()
	} else {
		r.gate.RLock()
		defer r.gate.RUnlock()
	}
	if r.refusal != nil {
		return r.refusal
	}
	if r.config.Clock == EventClock {
		r.stamp(c, items)
	}
	r.stats.submitted.Add(uint64(len(items)))
	for shard, a := range r.actors {
		if c.first[shard] != end || r.config.Clock == EventClock {
			a.mail.put(items, c, shard, r.clock)
		}
	}
	return nil
}

// stamp moves the event clock over items and notes what it shows at each. The
// clock is the router's, not the shard's: so an item's time does not depend on
// which keys it shares a shard with.
func (r *Router[K, V]) stamp(c *byShard, items []Item[K, V]) {
	for i := range items {
		r.clock = max(r.clock, nanos(items[i].At))
		c.stamps = append(c.stamps, r.clock)
	}
}

// CloseWhere closes the open windows of the keys that key reports true for, with every
// item that was submitted before the call. It does not wait for them to be flushed. key
// is called on the shards' goroutines, several at a time, and is to be quick. On the
// event clock such groups depend on when the call comes, as those of pressure do.
func (r *Router[K, V]) CloseWhere(key func(K) bool) {
	for _, a := range r.actors {
		a.mail.closeWhere(key)
	}
}

// Relieve closes the oldest windows where [Config.Room] leaves too little for them to wait
// for. Submit looks too: it is for a room that shrinks without one.
func (r *Router[K, V]) Relieve() { r.signalPressure(nil) }

// signalPressure looks at the pressure and, where it is high, has every shard but the
// caller's close windows. It reports whether it was.
func (r *Router[K, V]) signalPressure(caller *actor[K, V]) bool {
	if !r.pressureNow().high(r.stats.waiting.load(), r.budget.demand.load()) {
		return false
	}
	for _, a := range r.actors {
		if a != caller && a.pressed.CompareAndSwap(false, true) {
			a.mail.signal()
		}
	}
	return true
}

// pressureNow returns the pressure by what may come to be held: the whole budget, or less
// where the source may bring less. The room is looked at first: what is settled meanwhile
// makes the sum too large, and the next look, when its flush is done, finds it right.
func (r *Router[K, V]) pressureNow() pressure {
	if r.config.Room == nil {
		return r.pressure
	}
	more, ok := r.config.Room()
	if !ok {
		return r.pressure
	}
	return r.pressure.within(r.budget.usage().items, r.budget.demand.load().items, int64(more))
}
