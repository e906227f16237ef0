package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
)

// StoreConfig holds a store's settings. The zero value of each is its default.
type StoreConfig struct {
	// Committers is how many transactions run at once; default 2, so that one
	// that waits for a lock does not stop the others.
	Committers int
	// GroupRows and GroupBytes bound the requests that share a transaction;
	// default 1000 rows and 1 MiB. A larger request has one of its own.
	GroupRows  int
	GroupBytes int
	// Timeout bounds a transaction; default 15 s.
	Timeout time.Duration
	// Stored is called after each commit that stored something new, and must
	// not block: it is where a relay in the same process is woken.
	Stored func()
}

func (c StoreConfig) orDefaults() StoreConfig {
	c.Committers = cmp.Or(c.Committers, 2)
	c.GroupRows = cmp.Or(c.GroupRows, 1000)
	c.GroupBytes = cmp.Or(c.GroupBytes, 1<<20)
	c.Timeout = cmp.Or(c.Timeout, 15*time.Second)
	if c.Stored == nil {
		c.Stored = func() {}
	}
	return c
}

// Store stores events. A commit costs a sync of the disk, whether of one row or
// of a thousand, so the requests that come while one is under way share the
// next: an idle store answers after one sync, and a busy one is not slower than
// its disk.
type Store struct {
	Stats StoreStats

	db     *Database
	config StoreConfig
	queue  chan *request
	done   chan struct{}
	close  sync.Once
	work   conc.WaitGroup

	mu     sync.RWMutex // held for reading while a request is put in the queue
	closed bool
}

// NewStore returns a store on a database and starts its committers, which
// [Store.Close] ends.
func NewStore(db *Database, config StoreConfig) *Store {
	s := &Store{db: db, config: config.orDefaults(), queue: make(chan *request, 1024), done: make(chan struct{})}
	s.Stats.transaction = metric.NewCalls()
	for range s.config.Committers {
		s.work.Go(s.commitGroups)
	}
	return s
}

// errClosed meets requests after Close.
var errClosed = errors.New("outbox: the store is closed")

// request is one call of Add.
type request struct {
	ctx    context.Context
	rows   []newRow
	bytes  int
	fault  error // why it was not stored, where others of its group were
	answer chan error
}

// Rejected is the permanent error of [Store.Add]: these entries never fit. None
// of the others is stored either.
type Rejected struct {
	faults map[int]error
}

func rejection(faults map[int]error) error {
	if len(faults) == 0 {
		return nil
	}
	return engine.PermanentError(reasonRejected, &Rejected{faults})
}

// Error names one of the entries.
func (r *Rejected) Error() string {
	first := slices.Min(slices.Collect(maps.Keys(r.faults)))
	return fmt.Sprintf("outbox: %d entries are rejected; entry %d: %v", len(r.faults), first, r.faults[first])
}

// Rejected returns the entries that never fit, by their index.
func (r *Rejected) Rejected() map[int]error { return r.faults }

// Add stores all entries or, with an error, none, and reports which were new,
// aligned with entries: an id that was stored before, or that stands twice among
// them, is stored once. An answer of nil is a commit.
//
// A permanent error is a [Rejected] one: it names the entries that never fit; a configuration
// error names its cure; [engine.ErrAway] that the database is away;
// [engine.ErrUnknown] that the entries may have been stored: adding them again
// is always safe. Bodies are copied.
func (s *Store) Add(ctx context.Context, entries []profile.Entry) ([]bool, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	r := &request{ctx: ctx, rows: make([]newRow, len(entries)), answer: make(chan error, 1)}
	now := engine.Now()
	faults := map[int]error{}
	for i := range entries {
		var err error
		if r.rows[i], err = rowOf(&entries[i], now); err != nil {
			faults[i] = err
		}
		r.bytes += r.rows[i].size()
	}
	if err := rejection(faults); err != nil {
		return nil, err
	}
	if err := s.enqueue(r); err != nil {
		return nil, err
	}
	select {
	case err := <-r.answer:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("outbox: add: %w: %w", engine.ErrUnknown, ctx.Err())
	}
	fresh := make([]bool, len(entries))
	for i := range r.rows {
		fresh[i] = r.rows[i].fresh
	}
	return fresh, nil
}

func (s *Store) enqueue(r *request) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed
	}
	select {
	case s.queue <- r:
		return nil
	case <-r.ctx.Done():
		return fmt.Errorf("outbox: add: the store is busy: %w", r.ctx.Err())
	}
}

// Close stores what is queued and ends the committers. ctx bounds the wait.
func (s *Store) Close(ctx context.Context) error {
	s.close.Do(func() {
		s.mu.Lock()
		s.closed = true
		close(s.queue)
		s.mu.Unlock()
		go func() {
			s.work.Wait()
			close(s.done)
		}()
	})
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("outbox: close: %w", ctx.Err())
	}
}
