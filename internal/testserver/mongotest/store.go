package mongotest

import (
	"slices"
	"strings"
	"sync"
)

// Limits a server announces in hello.
const (
	maxDocument = 16 << 20
	maxMessage  = 48000000
	maxBatch    = 100000
)

// store is everything the server keeps. Locks are taken in this order: ddl,
// a session, the catalogue, a collection, replication.
type store struct {
	// ddl is held for reading by every command while it executes, and for
	// writing by what changes collections as such and by a rollback.
	ddl sync.RWMutex

	mu          sync.Mutex // the catalogue
	collections map[string]*collection

	replication *replication
	sessions    *sessions
	journal     *journal // nil for a store in memory only
	faults      *faults
	cursors     cursors
	counters    counters

	noValidators bool // see WithoutValidators
	mongos       bool // see WithMongos
}

func newStore() *store {
	s := &store{collections: make(map[string]*collection), sessions: newSessions(), faults: &faults{}}
	s.counters.commands, s.counters.broadcasts = make(map[string]int64), make(map[string]int64)
	s.replication = newReplication(&s.ddl)
	return s
}

// collection returns a collection, nil where there is none.
func (s *store) collection(namespace string) *collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collections[namespace]
}

// ensure returns a collection and creates it where there is none, as a first
// write does.
func (s *store) ensure(namespace string) *collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.collections[namespace]
	if !known {
		c = newCollection(s, namespace)
		s.collections[namespace] = c
		s.journal.create(namespace, c.options)
	}
	return c
}

// target returns the collection a write is for. Only one that may create a
// document creates the collection; any other finds nothing in a missing one.
func (s *store) target(namespace string, creates bool) *collection {
	if creates {
		return s.ensure(namespace)
	}
	if c := s.collection(namespace); c != nil {
		return c
	}
	return newCollection(s, namespace)
}

// configure gives a collection its options, and creates it where there is none.
// The DDL lock is held.
func (s *store) configure(namespace string, options document) error {
	options = slices.Clone(options)
	v, err := parseValidator(options)
	if err != nil {
		return err
	}
	c := s.ensure(namespace)
	c.options, c.validator = options, v
	s.journal.create(namespace, options)
	return nil
}

// drop removes a collection. The DDL lock is held.
func (s *store) drop(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.collections, namespace)
	s.journal.drop(namespace)
}

// rename gives a collection another name, which is free. The DDL lock is held.
func (s *store) rename(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.collections[from]
	delete(s.collections, from)
	c.namespace = to
	s.collections[to] = c
	s.journal.rename(from, to)
}

// database returns a database's collections by name.
func (s *store) database(db string) []*collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*collection
	for namespace, c := range s.collections {
		if strings.HasPrefix(namespace, db+".") {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *collection) int { return strings.Compare(a.namespace, b.namespace) })
	return all
}

// rollBack is an election that a majority wins without the newest writes. No
// command runs meanwhile; first is called before anything is changed.
func (s *store) rollBack(first func()) (int, error) {
	s.ddl.Lock()
	defer s.ddl.Unlock()
	first()
	upTo := s.replication.discard()
	n := 0
	s.mu.Lock()
	for _, c := range s.collections {
		n += c.rollBack(upTo)
	}
	s.mu.Unlock()
	s.sessions.forgetAfter(upTo, s.journal)
	return n, s.journal.flush()
}

// writer is one command's writing: what it may skip, what retries of it must
// find, and how far it got.
type writer struct {
	store   *store
	name    string   // the command's
	appName string   // the client's
	session *session // nil for a write that is not retryable
	bypass  bool     // bypassDocumentValidation
	replays bool     // what the journal holds was admitted once
	last    uint64   // its newest write
}

// refuse lets a fault refuse a document.
func (w *writer) refuse(namespace string, doc document) error {
	return w.store.faults.refuse(w, namespace, doc)
}

// wrote records a write that was applied. The collection is locked, so the
// journal has the writes on a document in their order.
func (w *writer) wrote(c *collection, old, doc document, seq uint64, result *outcome) {
	w.last = seq
	if w.session == nil || result == nil {
		w.store.journal.write(c.namespace, old, doc, nil)
		return
	}
	result.seq = seq
	w.session.remember(*result)
	w.store.journal.write(c.namespace, old, doc, func(dst []byte) []byte {
		return w.session.appendEntry(dst, fieldSession, result)
	})
}

// done returns what a statement of this write answered before, nil where it has
// not been executed.
func (w *writer) done(statement int32) *outcome {
	if w.session == nil {
		return nil
	}
	return w.session.done[statement]
}
