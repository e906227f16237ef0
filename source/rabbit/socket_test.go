package rabbit

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// What a connection brought before a freeze that was longer than its heartbeats is not
// read after it; a shorter silence changes nothing.
func TestAFrozenConnectionBringsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker, client := net.Pipe()
		defer broker.Close()
		s := newSocket(client, Timing{}.orDefaults())
		send := func(after time.Duration) {
			time.Sleep(after)
			_, _ = broker.Write([]byte("delivery"))
		}
		buffer := make([]byte, 64)
		go send(29 * time.Second)
		if n, err := s.Read(buffer); n == 0 || err != nil || s.frozen(time.Now()) {
			t.Fatalf("after a short silence: %d bytes, %v", n, err)
		}
		go send(31 * time.Second)
		if n, err := s.Read(buffer); n != 0 || !errors.Is(err, errFrozen) {
			t.Errorf("after a freeze: %d bytes, %v", n, err)
		}
		if !s.frozen(time.Now()) {
			t.Error("forgotten")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, client := net.Pipe()
		s := newSocket(client, Timing{}.orDefaults())
		time.Sleep(31 * time.Second)
		if !s.frozen(time.Now()) { // a reader meets deliveries of before, first
			t.Error("not noticed before the next read")
		}
		s.abort()
	})
}

// A message is not sent behind its time. The others are.
func TestLateMessagesAreNotSent(t *testing.T) {
	s := shared(t)
	m := s.messages(3)
	m[0].Until, m[1].Until = time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	errs := s.publisher(quick).Publish(within(t, ample), m)
	if errs[0] != nil || !errors.Is(errs[1], errLate) || s.depth(s.names.Queue) != 1 {
		t.Errorf("%v, %d in the queue", errs, s.depth(s.names.Queue))
	}
}
