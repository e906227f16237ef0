package mongotest

import (
	"math/rand/v2"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Sizes of batches. Source: MongoDB manual, "Cursor Batches".
const (
	firstBatch = 101
	batchBytes = 16 << 20
)

// cursors are results of which a part has not been fetched.
type cursors struct {
	mu   sync.Mutex
	open map[int64]*cursor
}

type cursor struct {
	namespace string
	rest      []document
}

// take removes a cursor and returns it; nil where there is none.
func (c *cursors) take(id int64) *cursor {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.open[id]
	delete(c.open, id)
	return one
}

func (c *cursors) put(id int64, one *cursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[int64]*cursor)
	}
	c.open[id] = one
}

// answerCursor answers with the first batch of docs and, where that is not all,
// a cursor for the rest.
func (r *request) answerCursor(namespace string, docs []document) error {
	size := r.number("batchSize", firstBatch)
	n := batch(docs, int(size))
	id := int64(0)
	if n < len(docs) {
		id = rand.Int64N(1<<62) + 1
		r.store.cursors.put(id, &cursor{namespace, docs[n:]})
	}
	r.answerBatch("firstBatch", namespace, id, docs[:n])
	return nil
}

// batch returns how many documents go into one answer: at most size, and at
// least one however large it is.
func batch(docs []document, size int) int {
	n, bytes := 0, 0
	for n < len(docs) && n < size && (n == 0 || bytes+len(docs[n]) <= batchBytes) {
		bytes += len(docs[n])
		n++
	}
	return n
}

func (r *request) answerBatch(field, namespace string, id int64, docs []document) {
	start := r.reply.open("cursor", bsoncore.TypeEmbeddedDocument)
	r.reply.list(field, docs)
	r.reply.buf = bsoncore.AppendInt64Element(r.reply.buf, "id", id)
	r.reply.text("ns", namespace)
	r.reply.close(start)
}

func getMore(r *request) error {
	id, _ := r.field("getMore").AsInt64OK()
	c := r.store.cursors.take(id)
	if c == nil {
		return fail(codeCursorNotFound, "cursor id %d not found", id)
	}
	size := r.number("batchSize", 0)
	if size == 0 {
		size = int64(len(c.rest))
	}
	n := batch(c.rest, int(size))
	docs := c.rest[:n]
	c.rest = c.rest[n:]
	if len(c.rest) == 0 {
		id = 0
	} else {
		r.store.cursors.put(id, c)
	}
	r.answerBatch("nextBatch", c.namespace, id, docs)
	return nil
}

func killCursors(r *request) error {
	list, _ := r.field("cursors").ArrayOK()
	for e := range fields(list) {
		id, _ := e.Value().AsInt64OK()
		r.store.cursors.take(id)
	}
	return nil
}
