package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/sink/mongodb"
)

// server is the store of a deep schedule: a test server that speaks MongoDB's wire
// protocol, over the model's network, to sink/mongodb and the real driver.
type server struct {
	*simulation
	*mongotest.Server
	callers listener
	dials   atomic.Uint64
}

// listener takes connections from channels instead of sockets.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   *sync.Once
}

func newListener() listener {
	return listener{make(chan net.Conn), make(chan struct{}), new(sync.Once)}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l listener) Addr() net.Addr { return address("store:27017") }

// newServer starts the store and sets it up.
func newServer(w *simulation) (*server, error) {
	s := &server{simulation: w, callers: newListener()}
	var err error
	if s.Server, err = mongotest.Listen(mongotest.WithListener(s.callers)); err != nil {
		return nil, err
	}
	store, err := s.open(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if _, err := store.Setup(context.Background()); err != nil {
		return nil, err
	}
	return s, s.injectFaults()
}

// injectFaults brings the faults of the whole schedule.
func (s *server) injectFaults() error {
	errs := []error{s.DelayReplication(s.lag())}
	d := s.rng("server faults")
	if s.plan.rates.swap > 0 {
		for range 1 + d.N(4) {
			kinds := []mongotest.Fault{
				{Reply: mongotest.LoseReply},
				{Reply: mongotest.SwallowReply},
				{Reply: mongotest.CutReply},
				{CloseConnection: true},
				{BlockConnection: true},
			}
			f := kinds[d.N(len(kinds))]
			f.Commands = []string{"update", "insert", "find"}
			f.Skip, f.Times = d.N(20), 1+d.N(2)
			f.BlockTimeMS = d.Between(time.Second, 15*time.Second).Milliseconds()
			_, err := s.Inject(f)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lag is how long a majority takes: far less than what a write may take.
func (s *server) lag() time.Duration { return s.plan.rates.lag / 4 }

// longestStall is more than a write waits for its answer, so that what becomes of
// some is asked for while no majority has them.
const longestStall = 25 * time.Second

// failOver implements [profileStore]: no majority gets any write for a while, and then
// they are taken back.
func (s *server) failOver(a action) {
	d := s.rng("failover", uint64(a.at))
	_ = s.StallReplication()
	time.AfterFunc(d.Between(time.Millisecond, longestStall), func() {
		n, _ := s.Rollback()
		_ = s.DelayReplication(s.lag())
		s.Note("store", "failover, writes taken back", int64(n))
	})
}

// heal implements [profileStore].
func (s *server) heal() {
	_ = s.Remove(0)
	_ = s.Resume()
	_ = s.AcceptConnections()
	_ = s.Replicate()
}

// takeDown implements [profileStore].
func (s *server) takeDown(span time.Duration, hangs bool) {
	if hangs {
		_ = s.Pause(span)
		return
	}
	_ = s.RefuseConnections(span)
	_ = s.Disconnect()
}

// storeConn is a store that was opened, with its connections.
type storeConn struct {
	*mongodb.Store
	server *server
	worker *worker // nil for the model's own calls

	mu    sync.Mutex
	over  bool
	wires []*wire
}

// openTimeout bounds the opening of a store.
const openTimeout = 5 * time.Second

// open connects for a worker, or with nil for the model itself.
func (s *server) open(ctx context.Context, k *worker) (*storeConn, error) {
	laws := s.laws()
	v := &storeConn{server: s, worker: k}
	c := mongodb.DefaultConfig()
	c.URI = s.URI()
	c.Dimensions, c.History, c.Model = laws.Dimensions, laws.History, laws.Model
	c.ShortHalfLife = laws.ShortHalfLife
	c.Dialer = v
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	// The driver's Close turns round and round while a connection waits for its last
	// answer, and no time passes in a bubble meanwhile: there has to be none.
	release := context.AfterFunc(ctx, v.hangUp)
	defer release()
	var err error
	v.Store, err = mongodb.Open(ctx, c)
	return v, err
}

// hangUp ends the connections: what was sent arrives, no answer comes.
func (v *storeConn) hangUp() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	for _, w := range v.wires {
		w.up.end(errCut, false)
		w.down.end(errCut, true)
	}
}

// Close ends the connections and closes the store.
func (v *storeConn) Close() error {
	v.hangUp()
	time.Sleep(time.Millisecond)
	_ = v.Store.Close() // it has lost its connections
	return nil
}

// DialContext implements the driver's dialer.
func (v *storeConn) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	s := v.server
	id := s.dials.Add(1)
	d := s.rng("dial store", id)
	if err := pause(ctx, d.Between(time.Microsecond, 10*time.Millisecond)); err != nil {
		return nil, err
	}
	if err := v.worker.alive(ctx); err != nil {
		return nil, err
	}
	w := s.newWire("store", "store ", id, 2*time.Millisecond)
	select {
	case s.callers.conns <- socket{wire: w, in: w.up, out: w.down}:
	case <-s.callers.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		w.cut(true)
		return nil, errRefused
	}
	v.wires = append(v.wires, w)
	return socket{wire: w, in: w.down, out: w.up}, nil
}

// erase implements [profileStore], however many tries that takes.
func (s *server) erase(user int32) {
	for {
		store, err := s.open(context.Background(), nil)
		if err == nil {
			err = store.Forget(context.Background(), user, engine.Now())
			store.Close()
		}
		if err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// stored implements [profileStore].
func (s *server) stored() (map[int32]*profile.Profile, error) {
	store, err := s.open(context.Background(), nil)
	for tries := 0; err != nil; tries++ { // a failover may still be going on
		if tries == 60 {
			return nil, fmt.Errorf("read what is stored: %w", err)
		}
		time.Sleep(time.Second)
		store, err = s.open(context.Background(), nil)
	}
	defer store.Close()
	all := map[int32]*profile.Profile{}
	for p, err := range store.AllProfiles(context.Background()) {
		if err != nil {
			return nil, err
		}
		all[p.UserID] = p
	}
	return all, nil
}

// caller is one worker's way to the store of a deep schedule; products are the
// model's.
type caller struct {
	client *client
	*storeConn
}

func (c *caller) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if err := c.client.of.alive(ctx); err != nil {
		return nil, err
	}
	return c.storeConn.Load(ctx, users)
}

func (c *caller) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	if err := c.client.of.alive(ctx); err != nil {
		return all(len(profiles), err)
	}
	c.client.beginWrites(profiles)
	defer c.client.endWrites(profiles)
	errs := c.storeConn.Swap(ctx, profiles)
	for i, p := range profiles {
		if errs[i] == nil {
			c.client.Note("store", "written: user, version, events", int64(p.UserID), int64(p.Version), p.EventCount)
		}
	}
	return errs
}

func (c *caller) Products(ctx context.Context, ids []int32) ([]profile.Product, error) {
	return c.client.Products(ctx, ids)
}

// Probe is the breaker's question.
func (c *caller) Probe(ctx context.Context) error {
	if err := pause(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	return c.storeConn.Probe(ctx)
}
