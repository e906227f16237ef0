package mongotest

import (
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// tally is what statements did.
type tally struct {
	n, modified int
	upserted    value
}

// answer is a tally as a retried statement finds it.
func (t tally) answer() document {
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = bsoncore.AppendInt32Element(dst, "n", int32(t.n))
	dst = bsoncore.AppendInt32Element(dst, "nModified", int32(t.modified))
	if t.upserted.Type != 0 {
		dst = bsoncore.AppendValueElement(dst, "upserted", t.upserted)
	}
	return endDocument(dst, start)
}

func tallyOf(answer document) tally {
	n, _ := lookup(answer, "n").AsInt64OK()
	modified, _ := lookup(answer, "nModified").AsInt64OK()
	return tally{int(n), int(modified), lookup(answer, "upserted")}
}

// effect is the outcome a statement leaves for its retries.
func (w *writer) effect(statement int32, t tally) *outcome {
	if w.session == nil {
		return nil
	}
	return &outcome{statement: statement, answer: t.answer()}
}

// statement executes one element of a write command.
type statement func(c *collection, doc document, id int32) (tally, error)

// writeBatch is a write command's statements being executed.
type writeBatch struct {
	r        *request
	total    tally
	failures []byte // elements of writeErrors
	failed   int
	upserted []byte // elements of upserted
	upserts  int
	retried  []int32
}

// execute runs the statements in their order: up to the first that fails, or all
// of them where ordered is false. Each takes effect, or not, for itself.
func (r *request) execute(field string, run statement) (*writeBatch, error) {
	namespace, err := r.namespace()
	if err != nil {
		return nil, err
	}
	docs, err := r.statements(field)
	if err != nil {
		return nil, err
	}
	creates := func(doc document) bool { return r.name == "insert" || isTrue(lookup(doc, "upsert")) }
	c := r.store.target(namespace, slices.ContainsFunc(docs, creates))
	ordered := r.field("ordered")
	stops := ordered.Type == 0 || isTrue(ordered)
	b := &writeBatch{r: r}
	ids := r.statementIDs(len(docs))
	for i, doc := range docs {
		if err := b.one(c, doc, i, ids(i), run); err != nil && stops {
			break
		}
	}
	return b, nil
}

// statementIDs returns how statements are numbered for retries: from 0 unless
// the command says otherwise.
func (r *request) statementIDs(n int) func(int) int32 {
	if list, ok := r.field("stmtIds").ArrayOK(); ok {
		ids := make([]int32, 0, n)
		for e := range fields(list) {
			id, _ := e.Value().AsInt64OK()
			ids = append(ids, int32(id))
		}
		if len(ids) == n {
			return func(i int) int32 { return ids[i] }
		}
	}
	first := int32(r.number("stmtId", 0))
	return func(i int) int32 { return first + int32(i) }
}

func (b *writeBatch) one(c *collection, doc document, index int, id int32, run statement) error {
	var t tally
	var err error
	if o := b.r.writer.done(id); o != nil {
		t = tallyOf(o.answer)
		b.retried = append(b.retried, id)
	} else {
		t, err = run(c, doc, id)
	}
	if err != nil {
		b.failures = failureOf(err).appendStatement(b.failures, strconv.Itoa(b.failed), index)
		b.failed++
		return err
	}
	b.total.n += t.n
	b.total.modified += t.modified
	if t.upserted.Type != 0 {
		start, dst := bsoncore.AppendDocumentElementStart(b.upserted, strconv.Itoa(b.upserts))
		dst = bsoncore.AppendInt32Element(dst, "index", int32(index))
		dst = bsoncore.AppendValueElement(dst, "_id", t.upserted)
		b.upserted = endDocument(dst, start)
		b.upserts++
	}
	return nil
}

// answer appends what the batch did.
func (b *writeBatch) answer() {
	r := &b.r.reply
	r.number("n", int64(b.total.n))
	if b.upserts > 0 {
		start := r.open("upserted", bsoncore.TypeArray)
		r.buf = append(r.buf, b.upserted...)
		r.close(start)
	}
	if b.failed > 0 {
		start := r.open("writeErrors", bsoncore.TypeArray)
		r.buf = append(r.buf, b.failures...)
		r.close(start)
	}
	if len(b.retried) > 0 {
		start := r.open("retriedStmtIds", bsoncore.TypeArray)
		for i, id := range b.retried {
			r.number(strconv.Itoa(i), int64(id))
		}
		r.close(start)
	}
}

func insertCommand(r *request) error {
	b, err := r.execute("documents", r.insertOne)
	if err != nil {
		return err
	}
	b.answer()
	return nil
}

func (r *request) insertOne(c *collection, doc document, id int32) (tally, error) {
	t := tally{n: 1}
	stored := withID(doc)
	if len(stored) > maxDocument {
		return t, fail(codeTooLarge, "object to insert too large. size in bytes: %d, max size: %d", len(stored), maxDocument)
	}
	if lookup(stored, "_id").Type == bsoncore.TypeArray {
		return t, fail(53, "The '_id' value cannot be of type array")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t, c.write(&r.writer, &record{}, stored, r.writer.effect(id, t))
}

func updateCommand(r *request) error {
	b, err := r.execute("updates", r.updateOne)
	if err != nil {
		return err
	}
	b.answer()
	r.reply.number("nModified", int64(b.total.modified))
	return nil
}

func (r *request) updateOne(c *collection, doc document, id int32) (t tally, err error) {
	if err := refuse("update", doc, "collation", "arrayFilters", "c"); err != nil {
		return t, err
	}
	f, err := filterOf(doc)
	if err != nil {
		return t, err
	}
	u, err := parseUpdate(lookup(doc, "u"))
	if err != nil {
		return t, err
	}
	limit := 1
	if isTrue(lookup(doc, "multi")) {
		limit = 0
		if u.replacement != nil {
			return t, fail(codeFailedToParse, "multi update is not supported for replacement-style update")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	records := c.matching(f, limit)
	if len(records) == 0 && isTrue(lookup(doc, "upsert")) {
		return r.upsert(c, f, u, id)
	}
	for _, rec := range records {
		t.n++
		updated, err := u.apply(rec.raw, &c.scratch)
		if err != nil {
			return t, err
		}
		if &updated[0] == &rec.raw[0] {
			continue
		}
		t.modified++
		if err := c.write(&r.writer, rec, updated, r.writer.effect(id, t)); err != nil {
			return t, err
		}
	}
	return t, nil
}

// upsert creates the document that the update did not find. The collection is
// locked.
func (r *request) upsert(c *collection, f *filter, u *update, id int32) (tally, error) {
	doc, err := u.insert(f)
	if err != nil {
		return tally{}, err
	}
	t := tally{n: 1, upserted: lookup(doc, "_id")}
	return t, c.write(&r.writer, &record{}, doc, r.writer.effect(id, t))
}

// filterOf compiles the q of a statement.
func filterOf(doc document) (*filter, error) {
	q, ok := lookup(doc, "q").DocumentOK()
	if !ok {
		return nil, fail(codeMissingField, "BSON field 'q' is missing but a required field")
	}
	return parseFilter(q)
}

func refuse(command string, doc document, names ...string) error {
	for _, name := range names {
		if v := lookup(doc, name); v.Type != 0 && v.Type != bsoncore.TypeNull {
			return fail(codeNotSupported, "mongotest: field '%s' of %s is not supported", name, command)
		}
	}
	return nil
}

func deleteCommand(r *request) error {
	b, err := r.execute("deletes", r.deleteOne)
	if err != nil {
		return err
	}
	b.answer()
	return nil
}

func (r *request) deleteOne(c *collection, doc document, id int32) (t tally, err error) {
	if err := refuse("delete", doc, "collation"); err != nil {
		return t, err
	}
	f, err := filterOf(doc)
	if err != nil {
		return t, err
	}
	limit, _ := lookup(doc, "limit").AsInt64OK()
	if limit != 0 && limit != 1 {
		return t, fail(codeFailedToParse, "The limit field in delete objects must be 0 or 1. Got %d", limit)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rec := range c.matching(f, int(limit)) {
		t.n++
		if err := c.write(&r.writer, rec, nil, r.writer.effect(id, tally{n: t.n})); err != nil {
			return t, err
		}
	}
	return t, nil
}
