package mongotest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// tally is what statements did.
type tally struct {
	n, modified int
	upserted    value
}

// answer is a tally as a retried statement finds it.
func (t tally) answer() document {
	d := bsoncore.NewDocumentBuilder().AppendInt32("n", int32(t.n)).AppendInt32("nModified", int32(t.modified))
	if t.upserted.Type != 0 {
		d.AppendValue("upserted", t.upserted)
	}
	return d.Build()
}

func tallyOf(answer document) tally {
	n, _ := lookup(answer, "n").AsInt64OK()
	modified, _ := lookup(answer, "nModified").AsInt64OK()
	return tally{int(n), int(modified), lookup(answer, "upserted")}
}

// outcome is what a statement leaves for its retries.
func (w *writer) outcome(statement int32, t tally) *outcome {
	if w.session == nil {
		return nil
	}
	return &outcome{statement: statement, answer: t.answer()}
}

// statement executes one element of a write command.
type statement func(r *request, c *collection, doc document, id int32) (tally, error)

// writeBatch is a write command's statements being executed.
type writeBatch struct {
	r        *request
	total    tally
	failures []document
	upserted []document
}

// writes is the command whose statements stand in a field and are run in their order: up
// to the first that fails, or all of them where ordered is false. Each takes effect, or
// not, for itself.
func writes(field string, run statement) func(*request) error {
	return func(r *request) error {
		namespace, err := r.namespace()
		if err != nil {
			return err
		}
		docs, err := r.statements(field)
		if err != nil {
			return err
		}
		creates := func(doc document) bool { return r.name == "insert" || isTrue(lookup(doc, "upsert")) }
		c := r.store.target(namespace, slices.ContainsFunc(docs, creates))
		ordered := r.field("ordered")
		stops := ordered.Type == 0 || isTrue(ordered)
		b := &writeBatch{r: r}
		for i, doc := range docs {
			if err := b.one(c, doc, i, run); err != nil && stops {
				break
			}
		}
		b.answer()
		return nil
	}
}

func (b *writeBatch) one(c *collection, doc document, index int, run statement) error {
	var t tally
	var err error
	id := int32(index) // drivers number statements from 0
	if o := b.r.writer.done(id); o != nil {
		t = tallyOf(o.answer)
	} else {
		t, err = run(b.r, c, doc, id)
	}
	if err != nil {
		b.failures = append(b.failures, failureOf(err).statement(index))
		return err
	}
	b.total.n += t.n
	b.total.modified += t.modified
	if t.upserted.Type != 0 {
		b.upserted = append(b.upserted, bsoncore.NewDocumentBuilder().
			AppendInt32("index", int32(index)).AppendValue("_id", t.upserted).Build())
	}
	return nil
}

// answer appends what the batch did.
func (b *writeBatch) answer() {
	r := &b.r.reply
	r.number("n", int64(b.total.n))
	if b.r.name == "update" {
		r.number("nModified", int64(b.total.modified))
	}
	if len(b.upserted) > 0 {
		r.list("upserted", b.upserted)
	}
	if len(b.failures) > 0 {
		r.list("writeErrors", b.failures)
	}
}

func (r *request) insertOne(c *collection, doc document, id int32) (tally, error) {
	t := tally{n: 1}
	stored := withID(doc)
	if len(stored) > maxDocument {
		return t, fail(codeTooLarge, "object to insert too large. size in bytes: %d, max size: %d", len(stored), maxDocument)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t, c.write(&r.writer, &record{}, stored, r.writer.outcome(id, t))
}

func (r *request) updateOne(c *collection, doc document, id int32) (t tally, err error) {
	if err := refuse("update", doc, "collation", "arrayFilters", "c", "sort"); err != nil {
		return t, err
	}
	if isTrue(lookup(doc, "multi")) {
		return t, fail(codeNotSupported, "mongotest: updates of many documents are not supported")
	}
	f, err := filterOf(doc)
	if err != nil {
		return t, err
	}
	u, err := parseUpdate(lookup(doc, "u"))
	if err != nil {
		return t, err
	}
	if err := c.requireTarget(r.name, doc, f); err != nil {
		return t, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	records := c.matching(f, 1)
	if len(records) == 0 && isTrue(lookup(doc, "upsert")) {
		return r.upsert(c, f, u, id)
	}
	if len(records) == 0 {
		return t, nil
	}
	t.n = 1
	updated, err := u.apply(records[0].raw)
	if err != nil || &updated[0] == &records[0].raw[0] {
		return t, err
	}
	t.modified = 1
	return t, c.write(&r.writer, records[0], updated, r.writer.outcome(id, t))
}

// upsert creates the document that the update did not find. The collection is
// locked.
func (r *request) upsert(c *collection, f *filter, u *update, id int32) (tally, error) {
	doc, err := u.insert(f)
	if err != nil {
		return tally{}, err
	}
	t := tally{n: 1, upserted: lookup(doc, "_id")}
	return t, c.write(&r.writer, &record{}, doc, r.writer.outcome(id, t))
}

// filterOf compiles the q of a statement.
func filterOf(doc document) (*filter, error) {
	q, ok := lookup(doc, "q").DocumentOK()
	if !ok {
		return nil, fail(codeMissingField, "BSON field 'q' is missing but a required field")
	}
	return parseFilter(q)
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
	if err := c.requireTarget(r.name, doc, f); err != nil && limit == 1 {
		return t, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rec := range c.matching(f, int(limit)) {
		t.n++
		if err := c.write(&r.writer, rec, nil, r.writer.outcome(id, tally{n: t.n})); err != nil {
			return t, err
		}
	}
	return t, nil
}
