package shard

import (
	"sync/atomic"
	"time"
)

// actor is one shard: a goroutine that owns its keys' windows. It is never
// blocked: whatever it waits for is a case of one select.
type actor[K comparable, V any] struct {
	router *Router[K, V]
	mail   mailbox[K, V]
	// pressed is set by the goroutine that finds pressure high; the actor clears it.
	pressed atomic.Bool

	// All below is used by the actor's goroutine only.
	table     *table[K, V]
	spare     mail[K, V]  // the mailbox's other half
	now       int64       // never runs backwards
	timer     *time.Timer // wall clock only
	armed     int64       // when the timer fires, or never
	done      chan *flush[K, V]
	running   int // flushes whose handler has not returned
	freeFlush []*flush[K, V]
	halted    bool // no further flush is started
	draining  bool // the mailbox is closed and empty, and so is every window
	published tally
}

func newActor[K comparable, V any](r *Router[K, V]) *actor[K, V] {
	return &actor[K, V]{
		router: r,
		mail:   mailbox[K, V]{wake: make(chan struct{}, 1), incoming: mail[K, V]{clock: -horizon}},
		table:  newTable[K, V](r.config),
		spare:  mail[K, V]{clock: -horizon},
		now:    -horizon,
		armed:  never,
		// Room for every flush of this shard: reporting back never blocks.
		done: make(chan *flush[K, V], r.config.maxFlushesPerShard()),
	}
}

func (a *actor[K, V]) run() {
	// A new timer is stopped at once and only ever armed through Reset.
	a.timer = time.NewTimer(time.Hour)
	a.timer.Stop()
	defer a.timer.Stop()

	halt := a.router.halt
	for {
		a.step()
		if a.finished() {
			return
		}
		select {
		case <-a.mail.wake:
		case <-a.timer.C:
			a.armed = never
		case f := <-a.done:
			a.finish(f)
		case <-a.tokens():
			a.start()
		case <-halt:
			a.halted, halt = true, nil
		}
	}
}

// step brings the windows up to date with the mailbox and the clock.
func (a *actor[K, V]) step() {
	got, last := a.mail.take(a.spare)
	if a.router.config.Clock == EventClock {
		a.replay(got)
	} else {
		a.receive(got)
	}
	for _, key := range got.where {
		a.table.closeWhere(key)
	}
	a.spare = got.emptied()
	if last {
		a.draining = true
		a.table.closeAll(TriggerDrain)
	}
	a.publish()
	a.closeUnderPressure()
	a.arm()
}

// receive adds items on the wall clock, which is read once for all of them.
func (a *actor[K, V]) receive(got mail[K, V]) {
	a.now = int64(time.Since(a.router.started))
	a.table.closeDue(a.now)
	for i := range got.items {
		item := &got.items[i]
		a.table.add(item.Key, item.Value, item.weight(), a.now, item.Prompt)
	}
}

// replay adds items on the event clock: what an item's time makes due closes
// before the item is added.
func (a *actor[K, V]) replay(got mail[K, V]) {
	for i := range got.items {
		item := &got.items[i]
		a.now = got.stamps[i]
		a.table.closeDue(a.now)
		a.table.add(item.Key, item.Value, item.weight(), a.now, false)
	}
	a.now = max(a.now, got.clock)
	a.table.closeDue(a.now)
}

// closeUnderPressure closes the oldest windows when pressure is high, here or as found by
// another shard or a blocked Submit.
func (a *actor[K, V]) closeUnderPressure() {
	found := a.router.signalPressure(a)
	if a.pressed.Swap(false) || found {
		a.table.closeOldest(a.router.pressureNow().keep(a.router.budget.demand.load()), TriggerPressure)
		a.publish()
	}
}

// arm sets the timer where a window is due before it fires. A timer that fires
// too early costs one turn; setting it again for every item would cost more.
func (a *actor[K, V]) arm() {
	if a.router.config.Clock == EventClock {
		return
	}
	if _, at, _ := a.table.due(); at < a.armed {
		a.armed = at
		a.timer.Reset(time.Duration(at - a.now))
	}
}

// tokens is the channel to take a flush token from, nil while this shard could
// not use one.
func (a *actor[K, V]) tokens() <-chan struct{} {
	if a.halted || a.table.ready.front == nil || a.running == a.router.config.maxFlushesPerShard() {
		return nil
	}
	return a.router.tokens
}

// finished reports whether the actor has nothing more to do, ever.
func (a *actor[K, V]) finished() bool {
	if a.halted {
		return a.running == 0
	}
	return a.draining && len(a.table.queues) == 0
}
