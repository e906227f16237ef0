package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"keyfold/source/rabbit"
)

// message is one copy of an event at the broker.
type message struct {
	event       int   // its number in the plan
	seq         int64 // place in the queue, kept when it is given back
	properties  []byte
	body        []byte
	exchange    string
	redelivered bool
}

// broker is a model of RabbitMQ: one queue that workers consume, delay queues that
// give back to it, and a dead-letter queue. It never forgets what it confirmed.
type broker struct {
	*simulation
	names rabbit.Names

	mu        sync.Mutex
	conns     []*amqpConn // connections, in the order they came
	consumers []*consumer
	turn      int // whose turn it is among consumers
	seq       int64
	ready     []*message // by seq
	unacked   int
	delayed   int
	letters   map[int]int    // dead letters, by event
	reasons   map[int]string // why the event was given up, by event
	copies    []int          // of each event, in any queue, dead letters included
	published int
	down      time.Time // refuses connections until then
	alarm     bool
	faults    []error // laws the workers broke
}

// consumer is a subscription on a connection's channel.
type consumer struct {
	conn     *amqpConn
	channel  uint16
	tag      string
	prefetch int
	held     int
}

func newBroker(w *simulation) *broker {
	return &broker{simulation: w, names: rabbit.DefaultNames(), letters: map[int]int{}, reasons: map[int]string{}, copies: make([]int, len(w.plan.events))}
}

// publish puts an event's copy into the queue, as its producer does.
func (b *broker) publish(event int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &b.plan.events[event]
	b.published++
	b.Note("broker", "published", int64(event))
	b.enqueue(&message{event: event, properties: e.properties, body: e.body, exchange: b.names.Exchange})
	b.copies[event]++
	b.pump()
}

func (b *broker) enqueue(m *message) {
	b.seq++
	m.seq = b.seq
	b.ready = append(b.ready, m)
}

// giveBack puts a message where it was in the queue.
func (b *broker) giveBack(m *message) {
	m.redelivered = true
	at, _ := slices.BinarySearchFunc(b.ready, m.seq, func(other *message, seq int64) int { return int(other.seq - seq) })
	b.ready = slices.Insert(b.ready, at, m)
}

// pump delivers while there is a message and a consumer with room for it.
func (b *broker) pump() {
	for tried := 0; len(b.ready) > 0 && tried < len(b.consumers); {
		b.turn = (b.turn + 1) % len(b.consumers)
		c := b.consumers[b.turn]
		if c.held >= c.prefetch {
			tried++
			continue
		}
		tried = 0
		m := b.ready[0]
		b.ready = b.ready[1:]
		c.conn.deliver(c, m)
	}
}

// routed takes a message a worker published and reports whether a queue had it.
func (b *broker) routed(exchange, key string, m *message) bool {
	event, reason, ok := b.eventOf(key == b.names.DeadLetters, m.body)
	if !ok {
		b.fault("a message of no known event was published to %q", key)
		return false
	}
	m.event = event
	switch {
	case exchange == "" && key == b.names.DeadLetters:
		b.letters[event]++
		b.reasons[event] = reason
		b.copies[event]++
		b.Note("broker", "dead letter", int64(event))
		return true
	case exchange == "" && strings.HasPrefix(key, b.names.Queue+".retry.") && !b.plan.noDelayQueues:
		millis, err := strconv.Atoi(strings.TrimPrefix(key, b.names.Queue+".retry."))
		if err != nil {
			b.fault("no such queue: %q", key)
			return false
		}
		b.delay(m, time.Duration(millis)*time.Millisecond)
		return true
	default:
		return false
	}
}

// delay keeps a message and has it come back.
func (b *broker) delay(m *message, span time.Duration) {
	b.copies[m.event]++
	b.delayed++
	b.Note("broker", "delayed", int64(m.event), span.Milliseconds())
	d := b.rng("delay", uint64(m.event), uint64(b.seq), uint64(b.delayed))
	time.AfterFunc(span+d.Latency(time.Millisecond, time.Second), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.delayed--
		m.exchange = ""
		b.enqueue(m)
		b.Note("broker", "due again", int64(m.event))
		b.pump()
	})
}

// eventOf tells which event a body is. Of a dead letter it is the original, and the
// reason is the last failure it tells of.
func (b *broker) eventOf(letter bool, body []byte) (event int, reason string, ok bool) {
	if letter {
		var l struct {
			Original json.RawMessage `json:"original_message"`
			Encoding string          `json:"original_encoding"`
			Failure  struct {
				Errors []string `json:"error_messages"`
			} `json:"failure_info"`
		}
		if json.Unmarshal(body, &l) != nil {
			return 0, "", false
		}
		body = l.Original
		if l.Encoding == "base64" {
			raw, err := base64.StdEncoding.DecodeString(strings.Trim(string(body), `"`))
			if err != nil {
				return 0, "", false
			}
			body = raw
		}
		if n := len(l.Failure.Errors); n > 0 {
			reason = l.Failure.Errors[n-1]
		}
	}
	event, ok = b.plan.byBody[string(body)]
	return event, reason, ok
}

// gone forgets a copy that was acknowledged, and checks that nothing is lost by it.
func (b *broker) gone(m *message) {
	b.copies[m.event]--
	if b.copies[m.event] == 0 && b.server == nil && !b.store.accounted(&b.plan.events[m.event]) {
		b.fault("event %d of user %d was acknowledged, and is in no profile that a majority has and in no queue",
			m.event, b.plan.events[m.event].user)
	}
}

// fault notes that a law was broken. The caller holds mu.
func (b *broker) fault(format string, arguments ...any) {
	err := fmt.Errorf("%v: "+format, append([]any{time.Since(b.Began)}, arguments...)...)
	b.Note("broker", "LAW BROKEN: "+err.Error())
	b.faults = append(b.faults, err)
}

// idle reports whether no event is anywhere but among the dead letters.
func (b *broker) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.published == b.plan.publications && len(b.ready) == 0 && b.unacked == 0 && b.delayed == 0
}
