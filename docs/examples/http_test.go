package examples_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/httpapi"
	"keyfold/source/ingest"
)

const token = "a-token-of-the-examples"

// store keeps bodies by id, and is away for the first so many requests.
type store struct {
	mu     sync.Mutex
	away   int
	bodies map[string]string
}

func (s *store) Add(_ context.Context, entries []profile.Entry) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away > 0 {
		s.away--
		return nil, engine.ErrAway
	}
	fresh := make([]bool, len(entries))
	for i, e := range entries {
		_, known := s.bodies[e.Event.MessageID]
		fresh[i] = !known
		s.bodies[e.Event.MessageID] = string(e.Body)
	}
	return fresh, nil
}

// body returns what is stored under an id.
func (s *store) body(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[id]
}

func (s *store) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// leave makes the store away for the next requests.
func (s *store) leave(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = requests
}

// api serves a store and returns the environment of its senders.
func api(t *testing.T) (*store, []string) {
	t.Helper()
	s := &store{bodies: map[string]string{}}
	c := httpapi.DefaultConfig()
	c.Tokens = []string{token}
	server, err := httpapi.NewServer(c, httpapi.NewHandler(ingest.New(s, nil), slog.New(slog.DiscardHandler)))
	must.OK(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return s, []string{"KEYFOLD_URL=http://" + l.Addr().String(), "KEYFOLD_TOKEN=" + token}
}

func TestHTTPExample(t *testing.T) {
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each waits for the time of Retry-After
			s, environment := api(t)
			code, id, errs := run(t, environment, "", with(c.http, "search", "12345", phrase)...)
			if code != 0 {
				t.Fatalf("%d: %s", code, errs)
			}
			if e := checkEvent(t, s.body(id), profile.Event{UserID: 12345, Type: profile.Search, Phrase: phrase}); e.MessageID != id {
				t.Errorf("it prints %s", id)
			}
			s.leave(1) // it comes again
			code, id, errs = run(t, environment, "", with(c.http, "product_purchase", "7", "789")...)
			if code != 0 {
				t.Fatalf("with the store away at first: %d: %s", code, errs)
			}
			checkEvent(t, s.body(id), profile.Event{UserID: 7, Type: profile.ProductPurchase, ProductID: 789})
		})
	}
}

func TestHTTPExampleIsRefused(t *testing.T) {
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, environment := api(t)
			for _, tc := range []struct {
				environment []string
				arguments   []string
				want        string
			}{
				{environment, []string{"search", "0", "boots"}, "user_id"},
				{environment, []string{"stare", "1", "2"}, "unknown_event_type"},
				{with(environment, "KEYFOLD_TOKEN=another-one"), []string{"search", "1", "boots"}, "401"},
			} {
				code, out, errs := run(t, tc.environment, "", with(c.http, tc.arguments...)...)
				if code != 1 || !strings.Contains(errs, tc.want) || strings.Contains(out+errs, "another-one") {
					t.Errorf("%v: %d: %s%s", tc.arguments, code, out, errs)
				}
			}
			if s.len() != 0 {
				t.Errorf("%d events were stored", s.len())
			}
		})
	}
}

// A client gives up after four attempts.
func TestHTTPExampleGivesUp(t *testing.T) {
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Retry-After", "0")
				http.Error(w, "too many", http.StatusTooManyRequests)
			}))
			defer server.Close()
			code, out, errs := run(t, []string{"KEYFOLD_URL=" + server.URL}, "", with(c.http, "search", "1", "boots")...)
			if code != 1 || !strings.Contains(errs, "429") || requests.Load() != 4 {
				t.Errorf("%d after %d requests: %s%s", code, requests.Load(), out, errs)
			}
		})
	}
}

// The README's one line is run as it stands, but for the address and the token.
func TestReadmeLine(t *testing.T) {
	s, environment := api(t)
	text, err := os.ReadFile("README.md")
	must.OK(t, err)
	line := regexp.MustCompile(`(?m)^    curl .*\\\n.*$`).FindString(string(text))
	url := strings.TrimPrefix(environment[0], "KEYFOLD_URL=")
	line = strings.Replace(line, "http://127.0.0.1:7080", url, 1)
	line = strings.Replace(line, "curl ", "curl -sS -H 'Authorization: Bearer "+token+"' ", 1)
	code, out, errs := run(t, nil, "", "bash", "-c", line)
	if code != 0 || !strings.Contains(out, `"accepted":1`) || s.len() != 1 {
		t.Errorf("%s: %d, %d stored: %s%s", line, code, s.len(), out, errs)
	}
}

func TestCurlExample(t *testing.T) {
	s, environment := api(t)
	line := func(user int) string {
		return fmt.Sprintf(`{"user_id":%d,"event_type":"product_view","product_id":789,"occurred_at":"2026-02-10T14:30:00+00:00"}`+"\n", user)
	}
	s.leave(1) // it comes again
	for range 2 {
		code, out, errs := run(t, environment, line(1)+line(2), "./curl.sh")
		if code != 0 || !strings.Contains(out, "message_ids") || s.len() != 2 {
			t.Fatalf("%d, %d stored: %s%s", code, s.len(), out, errs)
		}
	}
	code, out, _ := run(t, environment, line(3)+line(0), "./curl.sh")
	if code == 0 || !strings.Contains(out, "id_out_of_range") || s.len() != 2 {
		t.Errorf("a bad line: %d, %d stored: %s", code, s.len(), out)
	}
	if code, out, _ = run(t, append(environment, "KEYFOLD_TOKEN="), line(4), "./curl.sh"); code == 0 || !strings.Contains(out, "token_missing") {
		t.Errorf("no token: %d: %s", code, out)
	}
}
