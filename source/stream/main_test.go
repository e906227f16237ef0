package stream

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
)

func TestMain(m *testing.M) { process.Main(m) }

// site is a virtual host of a broker that speaks the stream protocol.
type site struct {
	testing.TB
	broker *rabbittest.Broker
	vhost  string
	config Config
	*Conn
}

var streams atomic.Int64

// onSite runs a test on the version that is chosen: `make test` has RabbitMQ 3, and `make
// test-rabbitmq4` RabbitMQ 4.
func onSite(t *testing.T, test func(s *site)) {
	t.Parallel()
	test(newSite(t))
}

func newSite(t testing.TB) *site {
	b := rabbittest.Shared(t)
	s := &site{TB: t, broker: b, vhost: b.VHost(t)}
	s.config = Config{URI: rabbittest.StreamURI(b.StreamAddress(), s.vhost), Name: "keyfold test", Timing: sitetest.Quick}
	s.Conn = s.dial(s.config)
	return s
}

func (s *site) ctx() context.Context { return sitetest.Within(s, sitetest.Ample) }

func (s *site) dial(config Config) *Conn {
	s.Helper()
	c, err := Dial(s.ctx(), config)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func (s *site) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// create makes a stream that goes with the virtual host.
func (s *site) create(arguments map[string]string) string {
	s.Helper()
	name := fmt.Sprintf("stream %d", streams.Add(1))
	s.check(s.Create(s.ctx(), name, arguments))
	return name
}

// available asks for something of a stream that exists until the broker finds the stream's
// leader: a busy one may say at first that the stream is not available.
func (s *site) available(ask func() error) {
	s.Helper()
	sitetest.Eventually(s, "the stream is available", func() bool {
		err := ask()
		if errors.Is(err, StreamNotAvailable) {
			return false
		}
		s.check(err)
		return true
	})
}

// outbox publishes, and waits for the outcomes.
type outbox struct {
	*Publisher
	s        *site
	outcomes chan Outcome
}

func (s *site) publisher(stream, reference string) *outbox {
	s.Helper()
	o := &outbox{s: s, outcomes: make(chan Outcome, 1000)}
	s.available(func() (err error) {
		o.Publisher, err = s.DeclarePublisher(s.ctx(), Publishing{Stream: stream, Reference: reference, Handle: func(one Outcome) { o.outcomes <- one }})
		return err
	})
	return o
}

// await waits until an id is confirmed.
func (o *outbox) await(id uint64) {
	o.s.Helper()
	for {
		select {
		case one := <-o.outcomes:
			o.s.check(one.Err)
			for _, confirmed := range one.IDs {
				if confirmed == id {
					return
				}
			}
		case <-o.s.ctx().Done():
			o.s.Fatalf("publishing id %d was not confirmed", id)
		}
	}
}

// numbered makes messages with ids from first on.
func (s *site) numbered(first, n int) (all []Numbered) {
	for i := range n {
		m, err := AppendMessage(nil, fmt.Appendf(nil, "body %d", first+i), nil)
		s.check(err)
		all = append(all, Numbered{ID: uint64(first + i), Message: m})
	}
	return all
}

// put publishes n messages from first on, and waits for their confirms.
func (s *site) put(stream string, first, n int) {
	s.Helper()
	o := s.publisher(stream, "")
	s.check(o.Publish(s.numbered(first, n)))
	o.await(uint64(first + n - 1))
	s.check(o.Delete(s.ctx()))
}

// inbox keeps what a subscription brings.
type inbox struct {
	*Subscription
	s      *site
	chunks chan Chunk
}

func (s *site) subscribe(stream string, from Offset, credit uint16) *inbox {
	s.Helper()
	in := &inbox{s: s, chunks: make(chan Chunk, 10_000)}
	s.available(func() (err error) {
		in.Subscription, err = s.Subscribe(s.ctx(), Consume{Stream: stream, From: from, Credit: credit, Handle: func(_ context.Context, _ *Subscription, c Chunk) { in.chunks <- c }})
		return err
	})
	return in
}

func (in *inbox) next() Chunk {
	in.s.Helper()
	select {
	case c := <-in.chunks:
		return c
	case <-in.ctx.Done():
		in.s.Fatal(in.Err())
	case <-in.s.ctx().Done():
		in.s.Fatal("no chunk came")
	}
	return Chunk{}
}

// ended waits for the subscription's end.
func (in *inbox) ended() error {
	in.s.Helper()
	select {
	case <-in.Done():
	case <-in.s.ctx().Done():
		in.s.Fatal("the subscription goes on")
	}
	return in.Err()
}

// read returns the bodies by offset, until there are n.
func (in *inbox) read(n int) map[uint64]string {
	in.s.Helper()
	all := map[uint64]string{}
	for len(all) < n {
		c := in.next()
		in.s.check(in.Credit(1))
		in.s.check(c.Each(func(offset uint64, m Message) error {
			body, err := m.Body()
			all[offset] = string(body)
			return err
		}))
	}
	return all
}
