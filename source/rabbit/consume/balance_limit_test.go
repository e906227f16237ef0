package consume

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

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/partition"
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
//
// Promise(partitions/start)
func TestLateAnswerToAReplacedConsumer(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 2))
	late := &silence{class: classBasic, method: basicCancel, lasts: cancelTimeout + 500*time.Millisecond}
	a := f.join("a", func(c *Config) { c.Timing.Dial = late.dial })
	f.owned([]*member{a}, 2)
	sitetest.Eventually(t, "consuming", func() bool { return a.Ready() == nil })
	b := f.join("b", func(c *Config) { c.Prefetch = 500 })
	f.owned([]*member{a, b}, 1, 1) // the prefetch of the one that stays is replaced
	sitetest.Eventually(t, "a consumer is cancelled", func() bool { return late.begun.Load() == 1 })
	f.Publish(f.Slotted(300)...)
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == 300 })
	if n := b.Stats.Partitions.Events[0].Load(); n != 0 || a.Stats.Connects.Load() != 1 {
		t.Errorf("it connected %d times, and the other worker got %d of its events", a.Stats.Connects.Load(), n)
	}
}

// A broker that goes on sending heartbeats, and never answers, costs the connection.
//
// Promise(partitions/membership)
func TestJoinIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		class, method byte
		Layout        func(*site) *rabbit.Publisher
	}{
		"membership": {classBasic, basicConsume, func(s *site) *rabbit.Publisher { return s.Publisher(sitetest.Quick) }},
		"queues": {classQueue, queueDeclare, func(*site) *rabbit.Publisher {
			p := rabbit.NewPublisher("amqp://guest:guest@127.0.0.1:1/", rabbit.ThisProcess("test"), "layout", sitetest.Quick, sitetest.Quiet)
			_ = p.Close(t.Context())
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := partitioned(t, modern(t), 1)
			deaf := &silence{class: c.class, method: c.method, lasts: time.Hour}
			config := s.config()
			config.Partitions, config.Timing.Connect, config.Timing.Dial = &Partitions{}, 500*time.Millisecond, deaf.dial
			consumer, err := New(config, Ports{Retries: InProcess{}, Log: sitetest.Quiet, Layout: c.Layout(s)})
			must.OK(t, err)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- consumer.Run(ctx, Events(settleAtOnce)) }()
			sitetest.Eventually(t, "another connection", func() bool { return deaf.begun.Load() > 0 && deaf.dialed.Load() > 1 })
			stop()
			if err := errors.Join(<-done, consumer.Close(sitetest.Within(t, sitetest.Ample))); err != nil {
				t.Error(err)
			}
		})
	}
}

// A worker that has a partition that is another's, and one message that is never settled,
// gives it up after a while.
//
// Promise(partitions/stand-in)
func TestStandInIsLimited(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 2))
	slow := func(c *Config) { c.Timing.Poll = 300 * time.Millisecond } // returned before it is missed
	a, b := f.join("a", slow), f.join("b", slow)
	f.owned([]*member{a, b}, 1, 1)
	sitetest.Eventually(t, "both consume", func() bool { return errorsOf(a, b) == nil })
	deafen(a)
	f.kill(b)
	events := f.Slotted(200)
	f.Publish(events[:100]...)
	sitetest.Eventually(t, "the one that is left has all", func() bool { return a.share() == 100 })
	b = f.join("b", slow)
	f.owned([]*member{a, b}, 1, 1)
	f.Publish(events[100:]...)
	theirs := 0
	for _, m := range events {
		slot, err := strconv.Atoi(m.RoutingKey)
		must.OK(t, err)
		theirs += slot % 2
	}
	sitetest.Eventually(t, "the owner has its own", func() bool { return int(b.Stats.Acked.Load()) == theirs })
}

// The broker ends the membership, and nothing else: the worker joins again.
//
// Promise(partitions/membership): A worker whose membership the broker ends, or does not answer while
// it joins, connects again.
func TestLostMembership(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 1))
	a := f.join("a", func(c *Config) { c.Timing.Poll = time.Hour }) // it polls nothing meanwhile
	f.owned([]*member{a}, 1)
	a.setStatus(nil) // as a poll does
	f.Broker.DeleteQueue(t, f.VHost, f.Names.LayoutExchange())
	f.partition(1)
	sitetest.Eventually(t, "another session", func() bool { return a.Stats.Connects.Load() > 1 && a.Stats.Partitions.Workers.Load() == 1 })
	if n := a.Stats.Cancelled.Load(); n != 1 {
		t.Errorf("%d consumers were cancelled", n)
	}
}

// lookable is a balance without partitions.
func lookable() *balance {
	g := newGate()
	return &balance{
		consumer: &Consumer{gate: g}, membership: &partition.Membership{},
		session: &session{gate: g, stats: &Stats{}, sizes: newSizes(1000, 64<<20)},
	}
}

// The first message to be given back may come a moment before the pause.
func TestGivesBackWhatStays(t *testing.T) {
	for name, c := range map[string]struct {
		shut []bool // at each poll
		want int    // the poll that gives back
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
			if err := b.poll(false); errors.Is(err, errGiveBack) {
				at = i
				break
			}
		}
		if at != c.want {
			t.Errorf("%s: given back at poll %d, want %d", name, at, c.want)
		}
	}
}

// A worker takes more only once the number of workers has settled. Less it takes at once.
//
// Promise(partitions/start): Workers that start on a backlog take a sixteenth of their prefetch until
// their number stands, so that hand-overs end within 10 s.
func TestPrefetchGrowsOnceTheWorkersStay(t *testing.T) {
	b := lookable()
	b.session.sizes.note(1000, 1000<<10)
	b.capacity = 500
	if b.resize(false); b.capacity != 500 {
		t.Errorf("while workers come the prefetch is %d", b.capacity)
	}
	if b.resize(true); b.capacity != 1000 {
		t.Errorf("when they have settled the prefetch is %d", b.capacity)
	}
	b.capacity, b.first = 62, 62
	if b.resize(false); b.capacity != 62 || b.first != 62 {
		t.Errorf("at the beginning the prefetch is %d", b.capacity)
	}
	if b.resize(true); b.capacity != 1000-62 || b.first != 0 {
		t.Errorf("after the beginning the prefetch is %d", b.capacity)
	}
	b.session.sizes.note(1000, 1000<<18)
	b.session.bytes.Store(1 << 30)
	if b.resize(false); b.capacity >= 1000-62 {
		t.Errorf("of large events the prefetch is %d", b.capacity)
	}
}
