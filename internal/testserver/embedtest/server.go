package embedtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
)

// Config says how a server begins.
type Config struct {
	Dimensions int    // of requests that do not say; 0: 1536
	Model      string // the only model it has; "": any
	Key        string // what clients must send; "": nothing
	Addr       string // "": a free port of the loopback
	Seed       uint64 // of the faults drawn
	Faults     Faults
}

// Server is an embeddings API. Its vectors are the offline embedder's, so that
// a text has the same one on every server.
type Server struct {
	config  Config
	http    *httptest.Server
	closing chan struct{}
	closed  sync.Once

	mu     sync.Mutex
	faults Faults
	random *rand.Rand
	counts Counts
	inputs map[string]int
}

// Counts says what was asked of a server.
type Counts struct {
	Requests int // all
	Answered int // with whole, right vectors
	Refused  int // 400 and 413
	Faulty   int // all others
	Inputs   int // in all requests
	Embedded int // in answered requests
	Tokens   int // reported with answered requests
	MostAt   int // requests under way at once, at most
	under    int
}

// Start serves for as long as the test lasts.
func Start(t testing.TB, config Config) *Server {
	t.Helper()
	s, err := Launch(config)
	must.OK(t, err)
	t.Cleanup(s.Close)
	return s
}

// Launch serves until Close.
func Launch(config Config) (*Server, error) {
	if config.Dimensions == 0 {
		config.Dimensions = 1536
	}
	if config.Addr == "" {
		config.Addr = "127.0.0.1:0"
	}
	if _, err := vector.NewHash(config.Dimensions); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", config.Addr)
	if err != nil {
		return nil, fmt.Errorf("embedding test server: %w", err)
	}
	s := &Server{
		config: config, faults: config.Faults, closing: make(chan struct{}),
		random: rand.New(rand.NewPCG(config.Seed, 1)), inputs: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}
	s.http.Start()
	return s, nil
}

// Close ends the server and every request under way. It may be called again.
func (s *Server) Close() {
	s.closed.Do(func() { close(s.closing) })
	s.http.CloseClientConnections()
	s.http.Close()
}

// URL is the base URL for clients, up to /v1.
func (s *Server) URL() string { return s.http.URL + "/v1" }

// SetFaults changes what goes wrong from now on.
func (s *Server) SetFaults(faults Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// Counts returns what was asked so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Asked returns how often each text stood in a request.
func (s *Server) Asked() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.inputs)
}
