package consume

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// patient has no limit of its own within a test's patience, which is [sitetest.Ample].
var patient = rabbit.Timing{
	Heartbeat: 5 * time.Minute, Connect: 5 * time.Minute, Write: 5 * time.Minute,
	BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
}

// stuck makes connections whose writes stop going through: the peer has gone, or
// reads nothing any more, and the buffers in between are full.
type stuck struct {
	mu   sync.Mutex
	full bool
}

func (s *stuck) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &stuckConn{Conn: c, owner: s, closed: make(chan struct{})}, nil
}

func (s *stuck) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = true
}

func (s *stuck) isFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

type stuckConn struct {
	net.Conn
	owner  *stuck
	once   sync.Once
	closed chan struct{}
}

func (c *stuckConn) Write(b []byte) (int, error) {
	if c.owner.isFull() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// returns fails the test where what does not return.
func returns(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(sitetest.Ample):
		t.Fatalf("%s has not returned after %v", what, sitetest.Ample)
	}
}

// A consumer that gives messages back, or consumes again, over a connection that
// has gone silent: told to stop, it does not wait for the broker's answers.
func TestStopWhileTheBrokerIsSilent(t *testing.T) {
	for name, act := range map[string]func(*runner){
		"giving back": (*runner).GiveBack,
		"resuming":    (*runner).Resume,
	} {
		t.Run(name, func(t *testing.T) {
			s := shared(t)
			s.Publish(s.Messages(3)...)
			p := rabbittest.NewProxy(t, s.Broker.Address())
			config := s.config()
			config.DSN, config.Timing = rabbittest.DSN(p.Address(), s.VHost), patient
			var in inbox
			r := s.run(config, in.deliver)
			sitetest.Eventually(t, "delivered", func() bool { return in.len() == 3 })
			r.Pause()
			time.Sleep(300 * time.Millisecond)
			p.Freeze()
			act(r)
			time.Sleep(300 * time.Millisecond)
			r.stop()
			returns(t, "Run", func() { r.done <- <-r.done })
			returns(t, "Close", func() { r.end(time.Second) })
		})
	}
}

// Acknowledgements that do not get through keep Close no longer than it was told.
func TestCloseWithAcknowledgementsStuck(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(3)...)
	var network stuck
	config := s.config()
	config.Timing = patient
	config.Timing.Dial = network.dial
	var in inbox
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 3 })
	r.stop()
	returns(t, "Run", func() { r.done <- <-r.done })
	network.fill()
	for _, d := range in.take() {
		d.Settler.Settle(folded)
	}
	returns(t, "Close", func() { r.end(time.Second) })
}

// Nor do dead letters.
func TestCloseWithDeadLettersStuck(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(2)...)
	var network stuck
	timing := patient
	timing.Dial = network.dial
	p := rabbit.NewPublisher(s.DSN, rabbit.ThisProcess("test"), "publisher", timing, sitetest.Quiet)
	c, err := New(s.config(), Ports{
		DeadLetters: DeadLetterQueue(p, s.Names, "test-host"), Retries: InProcess{}, Log: sitetest.Quiet,
	})
	must.OK(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var in inbox
	go func() { done <- c.Run(ctx, Events(in.deliver)) }()
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 2 })
	all := in.take()
	all[0].Settler.Settle(engine.Verdict{Outcome: engine.Dead, Reason: "test"})
	sitetest.Eventually(t, "the first is buried", func() bool { return c.Stats.DeadLetters.Load() == 1 })
	network.fill()
	all[1].Settler.Settle(engine.Verdict{Outcome: engine.Dead, Reason: "test"})
	time.Sleep(300 * time.Millisecond)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	returns(t, "Close", func() {
		if err := c.Close(sitetest.Within(t, time.Second)); err == nil {
			t.Error("Close does not say what was not settled")
		}
	})
	returns(t, "the publisher's Close", func() { _ = p.Close(sitetest.Within(t, time.Second)) })
}

// Once what was held at a pause is settled, the whole prefetch may be held again.
func TestResumeHasTheWholePrefetchInTheEnd(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(60)...)
	var in inbox
	config := s.config()
	config.Prefetch = 8
	r := s.run(config, in.deliver)
	sitetest.Eventually(t, "delivered", func() bool { return in.len() == 8 })
	r.Pause()
	time.Sleep(300 * time.Millisecond)
	held := in.take()
	for _, d := range held[:4] {
		d.Settler.Settle(folded)
	}
	r.Resume()
	sitetest.Eventually(t, "delivered after the pause", func() bool { return in.len() == 4 })
	for _, d := range held[4:] {
		d.Settler.Settle(folded)
	}
	for range 3 {
		sitetest.Eventually(t, "the whole prefetch is held", func() bool { return in.len() == 8 })
		time.Sleep(100 * time.Millisecond)
		if n := in.len(); n != 8 {
			t.Fatalf("%d held", n)
		}
		for _, d := range in.take() {
			d.Settler.Settle(folded)
		}
	}
}
