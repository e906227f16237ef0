package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// stalling is a body of which start comes and nothing more until leave.
type stalling struct {
	start   io.Reader
	arrived chan<- struct{}
	leave   <-chan struct{}
	once    sync.Once
}

func (s *stalling) Read(p []byte) (int, error) {
	if n, err := s.start.Read(p); err == nil {
		return n, nil
	}
	s.once.Do(func() { s.arrived <- struct{}{} })
	<-s.leave
	return 0, io.ErrUnexpectedEOF
}

// One sender's bodies that do not come to their end take no room from others,
// whether they are many or large.
//
// Promise(security/slow-sender): A sender alone gets half of the API's slots and memory, so that its
// slow or many requests leave room for others.
func TestSlowBodiesOfOneSender(t *testing.T) {
	for name, start := range map[string]string{"of a byte": "{", "of megabytes": strings.Repeat(" ", MaxRequestBytes-1)} {
		t.Run(name, func(t *testing.T) {
			c := onLoopback()
			c.Tokens = []string{goodToken, goodToken + "2"}
			s := newTestServer(t, c, newMemory())
			arrived, leave := make(chan struct{}), make(chan struct{})
			var under sync.WaitGroup
			refused := make(chan struct{})
			for n, more := 0, true; more && n < 10_000; n++ {
				r := from("192.0.2.1:9", goodToken)
				r.Body, r.ContentLength = io.NopCloser(&stalling{start: strings.NewReader(start), arrived: arrived, leave: leave}), MaxRequestBytes
				under.Go(func() {
					w := httptest.NewRecorder()
					s.ServeHTTP(w, r)
					if w.Code == http.StatusServiceUnavailable {
						refused <- struct{}{}
					}
				})
				select {
				case <-arrived:
				case <-refused:
					more = false
				}
			}
			if got := status(t, s, from("192.0.2.1:9", goodToken+"2")); got != http.StatusAccepted {
				t.Errorf("another sender meets %d", got)
			}
			close(leave)
			under.Wait()
			if got := status(t, s, from("192.0.2.1:9", goodToken)); got != http.StatusAccepted {
				t.Errorf("once they are gone: %d", got)
			}
		})
	}
}

// A slow store keeps one sender's requests waiting, up to a half of the slots.
//
// Promise(security/slow-sender)
func TestSlotsOfOneSender(t *testing.T) {
	c := onLoopback()
	c.MaxConcurrent = 8
	c.Tokens = []string{goodToken, goodToken + "2"}
	m := newMemory()
	var waiting atomic.Bool
	waiting.Store(true)
	arrived, leave := make(chan struct{}), make(chan struct{})
	m.adding = func(context.Context) {
		if waiting.Load() {
			arrived <- struct{}{}
			<-leave
		}
	}
	s := newTestServer(t, c, m)
	var under sync.WaitGroup
	for range c.MaxConcurrent / 2 {
		under.Go(func() { s.ServeHTTP(httptest.NewRecorder(), from("192.0.2.1:9", goodToken)) })
		<-arrived
	}
	waiting.Store(false)
	w, answer := serve(t, s, from("192.0.2.1:9", goodToken))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || answer.Errors[0].Reason != "busy" {
		t.Errorf("one more: %d %+v", w.Code, answer)
	}
	if got := status(t, s, from("192.0.2.1:9", goodToken+"2")); got != http.StatusAccepted {
		t.Errorf("another sender meets %d", got)
	}
	close(leave)
	under.Wait()
	if got := status(t, s, from("192.0.2.1:9", goodToken)); got != http.StatusAccepted {
		t.Errorf("once they are gone: %d", got)
	}
	for _, held := range []*shares{s.handler.memory, s.handler.slots} {
		if len(held.held) != 0 {
			t.Errorf("%v are held still", held.held)
		}
	}
}
