package mongotest

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// collection holds documents as the bytes they came in. Its lock is held for
// one statement at a time, and taken under the store's DDL lock.
type collection struct {
	namespace string
	store     *store

	mu        sync.RWMutex
	options   document // as given to create and collMod
	validator *filter
	indexes   []*index  // the first is that of _id
	rows      []*record // in order of insertion; nil where one was removed
	// shardKey is that of shardCollection, nil where the collection is not sharded;
	// shardField is its field. The DDL lock guards both.
	shardKey   document
	shardField string
	// dirty holds the records that have versions no majority has.
	dirty map[*record]struct{}
}

func newCollection(s *store, namespace string) *collection {
	ascending := value{Type: bsoncore.TypeInt32, Data: []byte{1, 0, 0, 0}}
	return &collection{
		namespace: namespace, store: s, options: emptyDocument,
		indexes: []*index{newIndex("_id_", "_id", ascending, true)},
		dirty:   make(map[*record]struct{}),
	}
}

// write gives r the document doc, nil to delete it. Everything that could
// refuse it has its say before anything is changed.
func (c *collection) write(w *writer, r *record, doc document, result *outcome) error {
	if !w.replays {
		if err := c.admit(w, r, doc); err != nil {
			return err
		}
	}
	seq, keep := c.store.replication.next(c, r)
	if r.seq == 0 {
		r.position = len(c.rows)
		c.rows = append(c.rows, r)
	}
	for _, x := range c.indexes {
		x.move(r, r.raw, doc)
	}
	if keep {
		if r.seq != 0 {
			r.past = append(r.past, version{r.raw, r.seq})
		}
		c.dirty[r] = struct{}{}
	} else {
		r.past = nil
		delete(c.dirty, r)
	}
	old := r.raw
	r.raw, r.seq = doc, seq
	if doc == nil && !keep {
		c.rows[r.position] = nil
	}
	w.wrote(c, old, doc, seq, result)
	return nil
}

// admit asks faults, the validator and the unique indexes.
func (c *collection) admit(w *writer, r *record, doc document) error {
	if doc == nil {
		return w.refuse(c.namespace, r.raw)
	}
	if err := w.refuse(c.namespace, doc); err != nil {
		return err
	}
	if c.validator != nil && !w.bypass && !c.validator.matches(doc) {
		return fail(codeValidation, "Document failed validation")
	}
	for _, x := range c.indexes {
		if err := x.admit(c, r, doc); err != nil {
			return err
		}
	}
	return nil
}

// settle forgets what r was, as far as a majority has what it is.
func (c *collection) settle(r *record, upTo uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, dirty := c.dirty[r]; !dirty || !r.trim(upTo) {
		return
	}
	delete(c.dirty, r)
	if r.raw == nil {
		c.rows[r.position] = nil
	}
}

// rollBack takes every record back to the version a majority has and reports
// how many documents that changed.
func (c *collection) rollBack(upTo uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.dirty {
		for _, x := range c.indexes {
			x.move(r, r.raw, nil)
		}
	}
	n := len(c.dirty)
	for r := range c.dirty {
		old := r.raw
		r.raw, r.seq, r.past = r.committed(upTo), upTo, nil
		if r.raw == nil {
			c.rows[r.position] = nil
		}
		for _, x := range c.indexes {
			x.move(r, nil, r.raw)
		}
		c.store.journal.write(c.namespace, old, r.raw, nil)
	}
	clear(c.dirty)
	return n
}

// candidates calls visit with every record that may match f until visit returns
// false: through an index where one fits, and otherwise all.
func (c *collection) candidates(f *filter, majority bool, visit func(*record) bool) {
	values, x := c.plan(f)
	if x == nil {
		for _, r := range c.rows {
			if r != nil && !visit(r) {
				return
			}
		}
		return
	}
	seen := make(map[*record]struct{}, len(values))
	once := func(r *record) bool {
		if _, again := seen[r]; again || r == nil {
			return true
		}
		seen[r] = struct{}{}
		return visit(r)
	}
	// Indexes know the newest versions. What a majority has of the records
	// that changed since may match too.
	if majority {
		for r := range c.dirty {
			if !once(r) {
				return
			}
		}
	}
	var room [64]byte
	for _, v := range values {
		if !once(x.entries[string(appendKey(room[:0], v))]) {
			return
		}
	}
}

// plan chooses the index for a query, and the values to look up; nil where none
// fits.
func (c *collection) plan(f *filter) ([]value, *index) {
	for _, e := range f.equals {
		for _, x := range c.indexes {
			if x.unique && x.field == e.field {
				return e.values, x
			}
		}
	}
	return nil, nil
}

// find returns the documents that match, at most limit of them (0: all), as they
// are here or, with majority, as a majority has them.
func (c *collection) find(f *filter, limit int, majority bool) []document {
	c.mu.RLock()
	defer c.mu.RUnlock()
	upTo := c.store.replication.committedSeq()
	var docs []document
	examined := int64(0)
	c.candidates(f, majority, func(r *record) bool {
		doc := r.raw
		if majority {
			doc = r.committed(upTo)
		}
		examined++
		if doc != nil && f.matches(doc) {
			docs = append(docs, doc)
		}
		return limit == 0 || len(docs) < limit
	})
	c.store.counters.examined.Add(examined)
	return docs
}

// matching returns the records that match now, at most limit of them (0: all).
// The lock is held.
func (c *collection) matching(f *filter, limit int) []*record {
	var records []*record
	examined := int64(0)
	c.candidates(f, false, func(r *record) bool {
		examined++
		if r.raw != nil && f.matches(r.raw) {
			records = append(records, r)
		}
		return limit == 0 || len(records) < limit
	})
	c.store.counters.examined.Add(examined)
	return records
}
