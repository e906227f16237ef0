package mongotest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// Server is a MongoDB server that is none: see the package's documentation.
type Server struct {
	*Controls
	listener net.Listener
	address  string
	host     string // that hello tells
	store    *store
	topology *topology
	refusing hold // new connections
	paused   hold
	users    *credentials
	now      func() time.Time

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	conns  map[*conn]struct{}
	lastID int64
	closed bool
}

// Option changes a server before it starts.
type Option func(*settings)

type settings struct {
	address        string
	host           string
	listener       net.Listener
	data           string
	user, password string
	noValidators   bool
	mongos         bool
	now            func() time.Time
}

// WithAddress listens on address ("host:port"; port 0 chooses a free one)
// instead of 127.0.0.1:0.
func WithAddress(address string) Option { return func(s *settings) { s.address = address } }

// WithHost has clients of the replica set come to this address, where the one that the server
// listens on is not theirs.
func WithHost(address string) Option { return func(s *settings) { s.host = address } }

// WithListener takes connections from a listener, which Close closes, instead of
// an address.
func WithListener(l net.Listener) Option { return func(s *settings) { s.listener = l } }

// WithData keeps every executed write in this file, and begins with what it
// holds. One server at a time may use a file.
func WithData(path string) Option { return func(s *settings) { s.data = path } }

// WithUser makes the server require authentication (SCRAM-SHA-256), as this
// user.
func WithUser(name, password string) Option {
	return func(s *settings) { s.user, s.password = name, password }
}

// WithoutValidators makes the server take the validators of collections and drop
// them without a word, as some servers do.
func WithoutValidators() Option { return func(s *settings) { s.noValidators = true } }

// WithClock gives the server a clock of its own, which hello tells.
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// Start starts a server that ends with the test.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s, err := Listen(options...)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Listen starts a server. It runs until Close.
func Listen(options ...Option) (*Server, error) {
	set := settings{address: "127.0.0.1:0", now: time.Now}
	for _, o := range options {
		o(&set)
	}
	st := newStore()
	st.noValidators, st.mongos = set.noValidators, set.mongos
	if set.data != "" {
		j, err := openJournal(set.data, st)
		if err != nil {
			return nil, err
		}
		st.journal = j
	}
	users, err := newCredentials(set.user, set.password)
	if err != nil {
		return nil, errors.Join(err, st.journal.close())
	}
	listener := set.listener
	if listener == nil {
		if listener, err = net.Listen("tcp", set.address); err != nil {
			return nil, errors.Join(fmt.Errorf("mongotest: %w", err), st.journal.close())
		}
	}
	s := &Server{
		listener: listener, address: listener.Addr().String(), host: cmp.Or(set.host, listener.Addr().String()), store: st, topology: newTopology(),
		users: users, conns: make(map[*conn]struct{}), now: set.now,
	}
	s.Controls = &Controls{do: s.act}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

// Addr returns "host:port".
func (s *Server) Addr() string { return s.address }

// URI returns the connection string, without credentials.
func (s *Server) URI() string {
	if s.store.mongos {
		return "mongodb://" + s.address + "/"
	}
	return uri(s.address)
}

func uri(address string) string { return "mongodb://" + address + "/?replicaSet=" + replicaSet }

// Close closes every connection and returns when nothing of the server runs any
// more. Writes that still wait for a majority are not answered.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	err := s.listener.Close()
	s.cancel()
	s.topology.close()
	s.refusing.set(false, 0)
	s.paused.set(false, 0)
	s.store.replication.close()
	s.disconnect(func(*conn) bool { return true })
	s.wg.Wait()
	return errors.Join(err, s.store.journal.close())
}

// accept takes connections until the listener is closed.
func (s *Server) accept() {
	for {
		socket, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			pause(s.ctx, 10*time.Millisecond) // out of file descriptors, say
			continue
		}
		if s.refusing.on() != nil {
			reset(socket)
			continue
		}
		s.serve(socket)
	}
}

func (s *Server) serve(socket net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		reset(socket)
		return
	}
	s.lastID++
	c := newConn(s, socket, s.lastID)
	s.conns[c] = struct{}{}
	s.wg.Go(func() {
		c.run()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// disconnect closes the connections chosen.
func (s *Server) disconnect(chosen func(*conn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if chosen(c) {
			c.close()
		}
	}
}

// reset closes a connection so that the other side notices at once.
func reset(socket net.Conn) {
	if tcp, ok := socket.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = socket.Close()
}
