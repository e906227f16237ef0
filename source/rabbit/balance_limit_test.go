package rabbit

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// silence makes connections that hear nothing for a while once a method was sent.
type silence struct {
	class, method byte
	lasts         time.Duration
	begun         atomic.Int64 // how often
	dialed        atomic.Int64
}

func (s *silence) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.dialed.Add(1)
	return &silentConn{Conn: c, owner: s, closed: make(chan struct{})}, nil
}

type silentConn struct {
	net.Conn
	owner  *silence
	until  atomic.Int64 // nanoseconds
	once   sync.Once
	closed chan struct{}
}

func (c *silentConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte{0, c.owner.class, 0, c.owner.method}) && c.until.CompareAndSwap(0, time.Now().Add(c.owner.lasts).UnixNano()) {
		c.owner.begun.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-time.After(time.Until(time.Unix(0, c.until.Load()))):
		return n, err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *silentConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// Methods of AMQP.
const (
	classQueue, queueDeclare = 50, 10
	classBasic, basicConsume = 60, 20
	basicCancel              = 30
)

// A broker that is busy with many workers may answer late. A consumer that is replaced
// waits for longer than a stop does, and keeps its session.
func TestLateAnswerToAReplacedConsumer(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 2))
	late := &silence{class: classBasic, method: basicCancel, lasts: cancelTimeout + 500*time.Millisecond}
	a := f.join("a", func(c *Config) { c.Timing.Dial = late.dial })
	f.owned([]*member{a}, 2)
	eventually(t, "consuming", func() bool { return a.Ready() == nil })
	b := f.join("b", func(c *Config) { c.Prefetch = 500 })
	f.owned([]*member{a, b}, 1, 1) // the prefetch of the one that stays is replaced
	eventually(t, "a consumer is cancelled", func() bool { return late.begun.Load() == 1 })
	f.publish(f.slotted(300)...)
	eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == 300 })
	if n := b.Stats.Partitions.Events[0].Load(); n != 0 || a.Stats.Connects.Load() != 1 {
		t.Errorf("it connected %d times, and the other worker got %d of its events", a.Stats.Connects.Load(), n)
	}
}

// A broker that goes on sending heartbeats, and never answers, costs the connection.
func TestJoinIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		class, method byte
		layout        func(*site) *Publisher
	}{
		"membership": {classBasic, basicConsume, func(s *site) *Publisher { return s.publisher(quick) }},
		"queues": {classQueue, queueDeclare, func(*site) *Publisher {
			p := NewPublisher("amqp://guest:guest@127.0.0.1:1/", ThisProcess("test"), "layout", quick, quiet)
			_ = p.Close(t.Context())
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := partitioned(t, modern(t), 1)
			deaf := &silence{class: c.class, method: c.method, lasts: time.Hour}
			config := s.config()
			config.Partitions, config.Timing.Connect, config.Timing.Dial = &Partitions{}, 500*time.Millisecond, deaf.dial
			consumer, err := NewConsumer(config, Ports{Retries: InProcess{}, Log: quiet, Layout: c.layout(s)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- consumer.Run(ctx, Events(settleAtOnce)) }()
			eventually(t, "another connection", func() bool { return deaf.begun.Load() > 0 && deaf.dialed.Load() > 1 })
			stop()
			if err := errors.Join(<-done, consumer.Close(within(t, ample))); err != nil {
				t.Error(err)
			}
		})
	}
}

// A worker that has a partition that is another's, and one message that is never settled,
// gives it up after a while.
func TestStandInIsLimited(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 2))
	slow := func(c *Config) { c.Timing.Look = 300 * time.Millisecond } // returned before it is missed
	a, b := f.join("a", slow), f.join("b", slow)
	f.owned([]*member{a, b}, 1, 1)
	eventually(t, "both consume", func() bool { return errorsOf(a, b) == nil })
	deafen(a)
	f.kill(b)
	events := f.slotted(200)
	f.publish(events[:100]...)
	eventually(t, "the one that is left has all", func() bool { return a.share() == 100 })
	b = f.join("b", slow)
	f.owned([]*member{a, b}, 1, 1)
	f.publish(events[100:]...)
	theirs := 0
	for _, m := range events {
		slot, err := strconv.Atoi(m.RoutingKey)
		if err != nil {
			t.Fatal(err)
		}
		theirs += slot % 2
	}
	eventually(t, "the owner has its own", func() bool { return int(b.Stats.Acked.Load()) == theirs })
}

// The broker ends the membership, and nothing else: the worker joins again.
func TestLostMembership(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 1))
	a := f.join("a", func(c *Config) { c.Timing.Look = time.Hour }) // it looks at nothing meanwhile
	f.owned([]*member{a}, 1)
	a.setStatus(nil) // as a look does
	f.broker.DeleteQueue(t, f.vhost, f.names.LayoutExchange())
	f.partition(1)
	eventually(t, "another session", func() bool { return a.Stats.Connects.Load() > 1 && a.Stats.Partitions.Workers.Load() == 1 })
	if n := a.Stats.Cancelled.Load(); n != 1 {
		t.Errorf("%d consumers were cancelled", n)
	}
}

// lookable is a balance without partitions.
func lookable() *balance {
	g := newGate()
	return &balance{
		consumer: &Consumer{gate: g}, membership: &membership{},
		session: &session{gate: g, stats: &ConsumerStats{}, sizes: newSizes(1000, 64<<20)},
	}
}

// The first message to be given back may come a moment before the pause.
func TestGivesBackWhatStays(t *testing.T) {
	for name, c := range map[string]struct {
		shut []bool // at each look
		want int    // the look that gives back
	}{
		"no pause comes":         {[]bool{false, false}, 1},
		"a pause comes":          {[]bool{false, true, true}, -1},
		"the pause ends":         {[]bool{true, false, false}, 2},
		"a pause comes and ends": {[]bool{false, true, false, false}, 3},
	} {
		b := lookable()
		b.session.toGiveBack.Store(1)
		at := -1
		for i, shut := range c.shut {
			b.session.gate.set(shut)
			if err := b.look(false); errors.Is(err, errGiveBack) {
				at = i
				break
			}
		}
		if at != c.want {
			t.Errorf("%s: given back at look %d, want %d", name, at, c.want)
		}
	}
}

// A worker takes more only once the number of workers stays. Less it takes at once.
func TestPrefetchGrowsOnceTheWorkersStay(t *testing.T) {
	b := lookable()
	b.membership.session = b.session
	b.session.sizes.note(1000, 1000<<10)
	for b.fit = 500; b.fit == 500; b.membership.looks++ {
		if b.membership.looks > looksToStay {
			t.Fatal("it never grows")
		}
		b.size()
	}
	if looks := b.membership.looks - 1; looks != looksToStay || b.fit != 1000 {
		t.Errorf("after %d looks the prefetch is %d", looks, b.fit)
	}
	for b.fit, b.first, b.membership.looks = 62, 62, 0; b.first > 0 && b.membership.looks <= looksToStay; b.membership.looks++ {
		b.size()
	}
	if looks := b.membership.looks - 1; looks != looksToStay || b.fit != 1000-62 {
		t.Errorf("%d looks after the beginning the prefetch is %d", looks, b.fit)
	}
	b.membership.looks = 0
	b.session.sizes.note(1000, 1000<<18)
	b.session.bytes.Store(1 << 30)
	if b.size(); b.fit >= 1000-62 {
		t.Errorf("of large events the prefetch is %d", b.fit)
	}
}

// A stand-in's consumer stays where only more of the prefetch became free.
func TestConsumersThatStay(t *testing.T) {
	for _, c := range []struct {
		have, want wish
		stays      bool
	}{
		{wish{true, 101, 8}, wish{true, 102, 8}, true},
		{wish{true, 101, 8}, wish{true, 101, 9}, false},
		{wish{true, 101, 8}, wish{false, 101, 8}, false},
		{wish{false, -1, 8}, wish{false, -1, 9}, true},
		{wish{false, -1, 8}, wish{false, -1, 7}, false},
		{wish{false, -1, 8}, wish{false, -2, 8}, false},
		{wish{false, -1, 8}, wish{true, 101, 8}, false},
	} {
		if c.have.meets(c.want) != c.stays {
			t.Errorf("%+v for %+v: %v", c.have, c.want, !c.stays)
		}
	}
}
