package rabbit

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// What a connection brought before a freeze that was longer than its heartbeats is not
// read after it; a shorter silence changes nothing.
//
// Promise(redelivery/partition-frozen)
func TestAFrozenConnectionBringsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker, client := net.Pipe()
		defer broker.Close()
		s := newSocket(client, Timing{}.OrDefaults())
		send := func(after time.Duration) {
			time.Sleep(after)
			_, _ = broker.Write([]byte("delivery"))
		}
		buffer := make([]byte, 64)
		go send(29 * time.Second)
		if n, err := s.Read(buffer); n == 0 || err != nil || s.Frozen(time.Now()) {
			t.Fatalf("after a short silence: %d bytes, %v", n, err)
		}
		go send(31 * time.Second)
		if n, err := s.Read(buffer); n != 0 || !errors.Is(err, ErrFrozen) {
			t.Errorf("after a freeze: %d bytes, %v", n, err)
		}
		if !s.Frozen(time.Now()) {
			t.Error("forgotten")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, client := net.Pipe()
		s := newSocket(client, Timing{}.OrDefaults())
		time.Sleep(31 * time.Second)
		if !s.Frozen(time.Now()) { // a reader meets earlier deliveries, first
			t.Error("not noticed before the next read")
		}
		s.Abort()
	})
}

// A request that waited while the process was frozen was not left without an answer: its time is up
// first of all that happens, and what the broker had sent before is not read then either.
func TestAFreezeIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker, client := net.Pipe()
		defer broker.Close()
		s := newSocket(client, Timing{}.OrDefaults())
		s.Bound(time.Minute) // as a limit is that has passed by the time the process runs again
		time.Sleep(time.Minute)
		synctest.Wait()
		if !s.Frozen(time.Now()) { // what a reader asks before it hands over earlier deliveries
			t.Error("not noticed")
		}
		if _, err := s.Read(make([]byte, 64)); !errors.Is(err, ErrFrozen) {
			t.Errorf("%v, want what ended the connection", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		broker, client := net.Pipe()
		defer broker.Close()
		s := newSocket(client, Timing{}.OrDefaults())
		s.Bound(time.Second)
		time.Sleep(time.Minute)
		if !s.Frozen(time.Now()) {
			t.Error("a broker that did not answer before hides the freeze")
		}
	})
}

// Who waits for an answer in vain is told so, and not that the socket is closed.
func TestASilentBrokerIsNamed(t *testing.T) {
	for name, bound := range map[string]func(t *testing.T, s *Socket){
		"a time": func(_ *testing.T, s *Socket) { s.Bound(time.Second) },
		"a context's time": func(t *testing.T, s *Socket) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			s.BoundBy(ctx)
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			broker, client := net.Pipe()
			defer broker.Close()
			s := newSocket(client, Timing{}.OrDefaults())
			bound(t, s)
			_, err := s.Read(make([]byte, 64))
			if !errors.Is(err, ErrSilent) {
				t.Errorf("%s: %v", name, err)
			}
			fault := Fault("open a channel", &amqp.Error{Code: amqp.FrameError, Reason: err.Error()})
			if !strings.Contains(fault.Error(), "gives no answer in time") || engine.KindOf(fault) != engine.Transient {
				t.Errorf("%s: %v", name, fault)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		broker, client := net.Pipe()
		defer broker.Close()
		s := newSocket(client, Timing{}.OrDefaults())
		ctx, stop := context.WithCancel(t.Context())
		release := s.Bound(time.Second)
		s.BoundBy(ctx)
		release()
		time.AfterFunc(2*time.Second, stop)
		if _, err := s.Read(make([]byte, 64)); err == nil || errors.Is(err, ErrSilent) {
			t.Errorf("a stop: %v", err)
		}
	})
}
