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
