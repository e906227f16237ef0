package notifysim

import (
	"context"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/service/notify/notifier"
)

// life is one life of a notifier.
type life struct {
	*simulation
	place    int
	number   uint64
	skew     time.Duration // of its clock
	dead     atomic.Bool   // it was killed: nothing that it still does shows
	ctx      context.Context
	cancel   context.CancelFunc // to stop
	ended    chan struct{}
	queues   [2]*consumer
	notifier *notifier.Notifier // nil until it is made

	death  string // the boundary at which it is killed; "" for none
	visit  int
	visits map[string]int // guarded by mu
}

// start begins a life in a place, if none is there.
func (s *simulation) start(place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.lives[place] != nil {
		return
	}
	number := uint64(len(s.started) + 1)
	d := s.rng("life", number)
	k := &life{simulation: s, place: place, number: number, ended: make(chan struct{}), visits: map[string]int{}}
	k.skew = d.Between(-time.Second, time.Second)
	k.death, k.visit = s.plan.deathOf(s.number, number)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	s.lives[place], s.started = k, append(s.started, k)
	s.Note("notifier", "started", int64(place), int64(number))
	go k.work()
}

// end ends the life in a place, in order or as kill -9 does, and has another one begin
// after a while.
func (s *simulation) end(place int, inOrder bool, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.lives[place]; k != nil {
		k.endLocked(inOrder, pause)
	}
}

// endLocked is end with s.mu held.
func (k *life) endLocked(inOrder bool, pause time.Duration) {
	if k.lives[k.place] != k {
		return
	}
	k.lives[k.place] = nil
	what := "told to stop"
	if !inOrder {
		what = "killed"
		k.dead.Store(true)
		k.broker.leave(k)
	}
	k.Note("notifier", what, int64(k.place), int64(k.number))
	k.cancel()
	time.AfterFunc(pause, func() { k.start(k.place) })
}

// work runs the notifier until it is told to stop, or dies.
func (k *life) work() {
	defer close(k.ended)
	config := k.plan.config
	d := k.rng("intervals", k.number)
	for _, interval := range []*time.Duration{&config.Poll, &config.Mark, &config.Sweep} {
		*interval += d.Between(0, time.Millisecond)
	}
	n, err := notifier.New(config, processor.Ports{
		Ledger: k.ledger(), Dispatcher: &sender{k}, Sets: k, Clock: k.clock,
	})
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.fault("a notifier is not made: %w", err)
		return
	}
	k.notifier = n
	if k.plan.oneSweeps {
		n.Leases = &client{k, k.store}
	}
	if n.Start(k.ctx) == nil {
		k.consume(n)
	}
	<-k.ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	if k.dead.Load() {
		cancel()
	}
	defer cancel()
	_ = n.Stop(ctx) // what is left comes again
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := n.Router.Err(); err != nil {
		k.fault("a panic: %w", err)
	}
	k.broker.leave(k)
	k.Note("notifier", "gone", int64(k.number))
}

// shutdownTimeout is the default of WORKER_SHUTDOWN_TIMEOUT.
const shutdownTimeout = 10 * time.Second

// clock is the notifier's.
func (k *life) clock() engine.Millis {
	return engine.MillisOf(time.Now().Add(k.skew))
}

// Current implements [notify.Sets]: the second set reaches a notifier within 5 s.
func (k *life) Current() *notify.Set {
	if time.Since(k.Began) >= k.plan.newSet+time.Duration(k.number%5)*time.Second {
		return sets[1].Current()
	}
	return sets[0].Current()
}

// pass counts a visit of a boundary. A life may end there.
func (k *life) pass(point string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead.Load() {
		return
	}
	k.visits[point]++
	if k.death == point && k.visits[point] == k.visit {
		k.deaths[point]++
		k.Note("notifier", "dies at "+point, int64(k.number))
		d := k.rng("after death", k.number)
		k.endLocked(false, d.Latency(5*time.Second, time.Minute))
	}
}
