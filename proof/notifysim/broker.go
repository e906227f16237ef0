package notifysim

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/proof/schedule"
	"keyfold/service/notify/notifier"

	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
)

// broker has two queues, urgent and bulk. The simulation's mu guards it.
type broker struct {
	*simulation
	ready     [2][]*message
	consumers [2][]*consumer
	turn      [2]int // whose turn it is to be served
	live      int    // messages that are not acknowledged
	letters   []*message
	down      time.Time // until then it is away
}

// message is an event in a queue.
type message struct {
	event    int
	queue    int
	attempts int
	serial   int       // of its newest delivery
	holder   *consumer // nil: it is ready, delayed or a letter
}

// consumer is a life's of one queue.
type consumer struct {
	life  *life
	queue int
	held  []*message // delivered and not settled
	inbox []*message // of these, those that are not submitted
	poke  chan struct{}
}

func newBroker(s *simulation) *broker { return &broker{simulation: s} }

// attempts is how often an event is tried before it is a dead letter.
const attempts = 5

// publish puts an event into its queue. mu is held.
func (b *broker) publish(event int) {
	queue := 1
	if b.plan.events[event].Type.Urgent() {
		queue = 0
	}
	b.Note("broker", "published", int64(event))
	b.live++
	b.enter(&message{event: event, queue: queue})
}

// enter makes a message ready.
func (b *broker) enter(m *message) {
	m.holder = nil
	b.ready[m.queue] = append(b.ready[m.queue], m)
	b.serve(m.queue)
}

// later makes a message ready after a while.
func (b *broker) later(m *message, wait time.Duration) {
	m.holder = nil
	time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.enter(m)
	})
}

// serve gives what is ready to consumers that have room, in turn.
func (b *broker) serve(queue int) {
	if wait := time.Until(b.down); wait > 0 && !b.quiet() {
		time.AfterFunc(wait, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.serve(queue)
		})
		return
	}
	all := b.consumers[queue]
	for full := 0; len(b.ready[queue]) > 0 && full < len(all); {
		c := all[b.turn[queue]%len(all)]
		b.turn[queue]++
		if len(c.held) >= b.plan.prefetch {
			full++
			continue
		}
		full = 0
		m := b.ready[queue][0]
		b.ready[queue] = b.ready[queue][1:]
		m.holder, m.serial = c, m.serial+1
		c.held, c.inbox = append(c.held, m), append(c.inbox, m)
		select {
		case c.poke <- struct{}{}:
		default:
		}
	}
}

// consume begins to consume both queues.
func (k *life) consume(n *notifier.Notifier) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return
	}
	for queue := range k.queues {
		c := &consumer{life: k, queue: queue, poke: make(chan struct{}, 1)}
		k.queues[queue] = c
		k.broker.consumers[queue] = append(k.broker.consumers[queue], c)
		go c.work(n)
		k.broker.serve(queue)
	}
}

// work submits what is delivered.
func (c *consumer) work(n *notifier.Notifier) {
	k := c.life
	for {
		select {
		case <-c.poke:
		case <-k.ctx.Done():
			return
		}
		d := k.rng("deliver", k.number, uint64(c.queue), schedule.InstantOf(time.Now()))
		if pause(k.ctx, d.Latency(5*time.Millisecond, 2*time.Second)) != nil {
			return
		}
		if deliveries := c.take(); n.Submit(k.ctx, deliveries) != nil {
			return
		}
	}
}

// take returns what was delivered. Each delivery has an event of its own.
func (c *consumer) take() (deliveries []processor.Delivery) {
	b := c.life.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range c.inbox {
		serial, e := m.serial, *b.plan.events[m.event]
		deliveries = append(deliveries, processor.Delivery{Event: &e, Redelivered: serial > 1, Settler: processor.SettlerFunc(func(v processor.Verdict) {
			b.settle(c, m, serial, v)
		})})
	}
	c.inbox = nil
	return deliveries
}

// settle takes a verdict, unless the delivery was taken back meanwhile.
func (b *broker) settle(c *consumer, m *message, serial int, v processor.Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.life.dead.Load() || m.holder != c || m.serial != serial {
		return
	}
	b.Note("broker", "settled "+v.Outcome.String(), int64(m.event), int64(m.attempts))
	d := b.rng("settle", uint64(m.event), schedule.InstantOf(time.Now()))
	if v.Outcome == processor.Unsettled { // until the session ends
		b.session(c, m, serial, &d)
		return
	}
	c.drop(m)
	switch v.Outcome {
	case processor.Decided, processor.Known:
		b.checkDecided(m)
		if d.Chance(b.plan.rates.ack) && !b.quiet() { // the acknowledgement is lost
			b.later(m, d.Latency(time.Second, time.Minute))
			break
		}
		b.live--
	case processor.Retry:
		if m.attempts++; m.attempts >= attempts {
			b.letters = append(b.letters, m)
			break
		}
		b.later(m, 5*time.Second<<m.attempts+d.Between(0, time.Second))
	case processor.Park:
		b.later(m, d.Between(5*time.Second, 10*time.Second))
	default:
		b.fault("event %d is settled as %v: %w", m.event, v.Outcome, v.Err)
		b.live--
	}
	b.serve(c.queue)
}

// session takes an unsettled delivery back after a while.
func (b *broker) session(c *consumer, m *message, serial int, d *schedule.RNG) {
	time.AfterFunc(d.Between(30*time.Second, 90*time.Second), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if m.holder == c && m.serial == serial {
			c.drop(m)
			b.enter(m)
		}
	})
}

// checkDecided checks that what is acknowledged has a decision.
func (b *broker) checkDecided(m *message) {
	e := b.plan.events[m.event]
	found, err := b.store.Load(context.Background(), []notify.Ask{{User: e.UserID, Events: []uuid.UUID{e.ID}}})
	if err != nil || found[0].Known[0].Outcome == 0 {
		b.fault("event %d (%v) is acknowledged without a decision: %v", m.event, e.ID, err)
	}
}

// takeBack ends a life's connection: what it held is ready again, and the life goes on
// with another connection.
func (b *broker) takeBack(k *life) {
	for queue, c := range k.queues {
		if c == nil {
			continue
		}
		for _, m := range c.held {
			m.holder = nil
		}
		b.ready[queue] = slices.Concat(c.held, b.ready[queue])
		c.held, c.inbox = nil, nil
		b.serve(queue)
	}
}

// leave ends a life's consumers.
func (b *broker) leave(k *life) {
	for queue, c := range k.queues {
		b.consumers[queue] = slices.DeleteFunc(b.consumers[queue], func(o *consumer) bool { return o == c })
	}
	b.takeBack(k)
}

// replay puts dead letters back once faults are over.
func (b *broker) replay() {
	for _, m := range b.letters {
		m.attempts = 0
		b.enter(m)
	}
	b.letters = nil
}

// drop takes a message from a consumer.
func (c *consumer) drop(m *message) {
	m.holder = nil
	c.held = slices.DeleteFunc(c.held, func(o *message) bool { return o == m })
}
