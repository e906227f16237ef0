// Package sitetest is a virtual host of a test's own for keyfold, and what the tests of
// source/rabbit publish to it and look at. It does not set the host up: topology's own tests
// use it too.
package sitetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
)

// Quiet drops all lines.
var Quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// Quick has short waits and patient limits.
var Quick = rabbit.Timing{
	// Longer than a busy machine stands still: tests count connections.
	Heartbeat: 30 * time.Second, Connect: 30 * time.Second, Write: 30 * time.Second,
	BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
}

// Site is a virtual host for keyfold.
type Site struct {
	T      testing.TB
	Broker *rabbittest.Broker
	VHost  string
	DSN    string
	Names  rabbit.Names

	mu   sync.Mutex
	look *amqp.Channel // under mu: of depth
}

// New returns a virtual host of a broker, without keyfold's topology.
func New(t testing.TB, b *rabbittest.Broker) *Site {
	t.Helper()
	vhost := b.VHost(t)
	return &Site{T: t, Broker: b, VHost: vhost, DSN: b.DSN(vhost), Names: rabbit.DefaultNames()}
}

// On returns the same virtual host for another test.
func (s *Site) On(t testing.TB) *Site {
	return &Site{T: t, Broker: s.Broker, VHost: s.VHost, DSN: s.DSN, Names: s.Names}
}

// Broker is the test binary's. The test goes on beside others from here: it mostly
// waits, for delays, heartbeats and the broker.
func Broker(t testing.TB) *rabbittest.Broker {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	return rabbittest.Shared(t)
}

// mortal is a second broker of the test binary's.
var mortal = process.Shared(rabbittest.Launch)

// OwnBroker returns a broker that the test has for itself until it ends, which it may kill
// and set up otherwise: tests take turns, since a start costs more than most of them. What
// was set at runtime, the test takes back.
func OwnBroker(t *testing.T) *rabbittest.Broker {
	t.Helper()
	t.Parallel()
	turns.Lock()
	t.Cleanup(turns.Unlock)
	b := mortal(t)
	t.Cleanup(func() {
		if !b.Running() {
			b.Restart(t)
		}
	})
	return b
}

var turns sync.Mutex

// SetEnv sets a variable of the broker's until the test ends.
func SetEnv(t *testing.T, b *rabbittest.Broker, name string, value int) {
	t.Helper()
	eval := func(script string) string {
		result, err := b.Eval(script)
		must.OK(t, err)
		return result
	}
	before := eval("application:get_env(rabbit, " + name + ").")
	eval(fmt.Sprintf("application:set_env(rabbit, %s, %d).", name, value))
	t.Cleanup(func() {
		if before == "undefined" {
			eval("application:unset_env(rabbit, " + name + ").")
		} else {
			eval("application:set_env(rabbit, " + name + ", element(2, " + before + ")).")
		}
	})
}

// Long is set for `make soak`: what tests show by volume they show at length.
var Long = os.Getenv("KEYFOLD_SOAK") != ""

// AtLength returns the cases, and where tests run at length more of them.
func AtLength[T any](cases []T, more ...T) []T {
	if Long {
		return append(cases, more...)
	}
	return cases
}

// Body returns the i-th event's JSON.
func Body(i int) []byte {
	return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","search_phrase":null,"product_id":%d,`+
		`"occurred_at":"2026-02-10T14:30:00+00:00","metadata":{"device":"mobile"},"message_id":"m%06d","version":"1.0"}`,
		i%500+1, i%90+1, i)
}

// Event parses a body.
func Event(t testing.TB, body []byte) profile.Event {
	t.Helper()
	e, err := profile.ParseEvent(body, time.Now())
	must.OK(t, err)
	return e
}

// Messages returns n different events.
func (s *Site) Messages(n int) []rabbit.Message {
	all := make([]rabbit.Message, n)
	for i := range all {
		b := Body(i)
		e := Event(s.T, b)
		all[i] = s.Names.EventMessage(b, &e)
	}
	return all
}

// Publisher returns a publisher that ends with the test.
func (s *Site) Publisher(timing rabbit.Timing) *rabbit.Publisher {
	p := rabbit.NewPublisher(s.DSN, rabbit.ThisProcess("test"), "publisher", timing, Quiet)
	s.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Ample)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			s.T.Error(err)
		}
	})
	return p
}

// Publish publishes messages that each must have a queue.
func (s *Site) Publish(messages ...rabbit.Message) {
	s.T.Helper()
	for i, err := range s.Publisher(Quick).Publish(Within(s.T, time.Minute), messages) {
		if err != nil {
			s.T.Fatalf("message %d: %v", i, err)
		}
	}
}

// Ample is time enough for what takes none but on a machine that is busy
// elsewhere: it only bounds a failure.
const Ample = 2 * time.Minute

// Within returns a context of the test with a time limit.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Channel opens a plain channel for looking from outside.
func (s *Site) Channel() *amqp.Channel {
	s.T.Helper()
	conn, err := amqp.Dial(s.DSN)
	must.OK(s.T, err)
	s.T.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	must.OK(s.T, err)
	return ch
}

// Depth returns how many messages of a queue are ready.
func (s *Site) Depth(queue string) int {
	s.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.look == nil || s.look.IsClosed() {
		s.look = s.Channel()
	}
	q, err := s.look.QueueDeclarePassive(queue, true, false, false, false, nil)
	must.OK(s.T, err)
	return q.Messages
}

// Eventually waits for a condition; the limit only bounds a failure.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); {
		waited := time.Since(began)
		if waited > Ample {
			t.Fatalf("not within %v: %s", Ample, what)
		}
		time.Sleep(min(2*time.Millisecond+waited/10, 50*time.Millisecond))
	}
}

// OfSlots returns one event of each slot, which goes by slot.
func (s *Site) OfSlots(round int) []rabbit.Message {
	all := make([]rabbit.Message, engine.Slots)
	for user, n := int32(1), 0; n < len(all); user++ {
		slot := engine.SlotOf(user)
		if all[slot].ID != "" {
			continue
		}
		n++
		i := round*engine.Slots + slot
		b := bytes.Replace(Body(i), fmt.Appendf(nil, `"user_id":%d,`, i%500+1), fmt.Appendf(nil, `"user_id":%d,`, user), 1)
		e := Event(s.T, b)
		all[slot] = s.Names.SlotMessage(b, &e)
	}
	return all
}

// Empty empties queues and returns how often each message id came; a queue that is not
// there has none.
func (s *Site) Empty(queues ...string) map[string]int {
	s.T.Helper()
	came := map[string]int{}
	conn, err := amqp.Dial(s.DSN)
	must.OK(s.T, err)
	defer conn.Close()
	for _, queue := range queues {
		ch, err := conn.Channel()
		must.OK(s.T, err)
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if refusal, is := errors.AsType[*amqp.Error](err); is && refusal.Code == amqp.NotFound {
			continue // which has closed the channel
		}
		deliveries, err := ch.Consume(queue, "", true, false, false, false, nil) // a queue with one active consumer knows no other way
		must.OK(s.T, err)
		for range q.Messages {
			d := <-deliveries
			came[d.MessageId]++
		}
		must.OK(s.T, ch.Close())
	}
	return came
}

// Slotted returns n different events of 500 users, published by slot.
func (s *Site) Slotted(n int) []rabbit.Message {
	all := make([]rabbit.Message, n)
	for i := range all {
		b := Body(i)
		e := Event(s.T, b)
		all[i] = s.Names.SlotMessage(b, &e)
	}
	return all
}
