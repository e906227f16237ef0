package mongotest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// modification is a findAndModify.
type modification struct {
	filter     *filter
	order      ordering
	projection *projection
	update     *update // nil for a removal
	upsert     bool
	returnNew  bool
}

func findAndModify(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	if err := r.refuseFields("collation", "arrayFilters", "let"); err != nil {
		return err
	}
	m, err := r.parseModification()
	if err != nil {
		return err
	}
	id := int32(r.number("stmtId", 0))
	var answer document
	if o := r.writer.done(id); o != nil {
		answer = o.answer
	} else if answer, err = m.execute(r, r.store.target(namespace, m.upsert), id); err != nil {
		return err
	}
	for e := range fields(answer) {
		r.reply.buf = append(r.reply.buf, e...)
	}
	return nil
}

func (r *request) parseModification() (*modification, error) {
	q, err := r.parseQuery("query", "fields")
	if err != nil {
		return nil, err
	}
	m := &modification{
		filter: q.filter, order: q.order, projection: q.projection,
		upsert: truthy(r.field("upsert")), returnNew: truthy(r.field("new")),
	}
	change := r.field("update")
	if truthy(r.field("remove")) {
		if change.Type != 0 || m.upsert || m.returnNew {
			return nil, fail(codeFailedToParse, "Cannot specify remove together with update, upsert or new")
		}
		return m, nil
	}
	if change.Type == 0 {
		return nil, fail(codeFailedToParse, "Either an update or remove=true must be specified")
	}
	m.update, err = parseUpdate(change)
	return m, err
}

// execute returns the answer's document.
func (m *modification) execute(r *request, c *collection, id int32) (document, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := m.choose(c)
	switch {
	case rec == nil && m.upsert && m.update != nil:
		doc, err := m.update.insert(m.filter)
		if err != nil {
			return nil, err
		}
		answer := m.answer(tally{n: 1, upserted: lookup(doc, "_id")}, nil, doc)
		return answer, c.write(&r.writer, &record{}, doc, r.writer.keep(id, answer))
	case rec == nil:
		return m.answer(tally{}, nil, nil), nil
	case m.update == nil:
		answer := m.answer(tally{n: 1}, rec.raw, nil)
		return answer, c.write(&r.writer, rec, nil, r.writer.keep(id, answer))
	}
	doc, err := m.update.apply(rec.raw, &c.scratch)
	if err != nil {
		return nil, err
	}
	answer := m.answer(tally{n: 1, modified: 1}, rec.raw, doc)
	if &doc[0] == &rec.raw[0] {
		return answer, nil
	}
	return answer, c.write(&r.writer, rec, doc, r.writer.keep(id, answer))
}

// choose returns the first match in the order asked for. The collection is
// locked.
func (m *modification) choose(c *collection) *record {
	limit := 1
	if len(m.order) > 0 {
		limit = 0
	}
	records := c.matching(m.filter, limit)
	if len(records) == 0 {
		return nil
	}
	return slices.MinFunc(records, func(a, b *record) int { return m.order.compare(a.raw, b.raw) })
}

func (m *modification) answer(t tally, before, after document) document {
	start, dst := bsoncore.AppendDocumentStart(nil)
	last, dst := bsoncore.AppendDocumentElementStart(dst, "lastErrorObject")
	dst = bsoncore.AppendInt32Element(dst, "n", int32(t.n))
	if m.update != nil {
		dst = bsoncore.AppendBooleanElement(dst, "updatedExisting", before != nil)
	}
	if t.upserted.Type != 0 {
		dst = bsoncore.AppendValueElement(dst, "upserted", t.upserted)
	}
	dst = endDocument(dst, last)
	shown := before
	if m.returnNew {
		shown = after
	}
	switch {
	case shown == nil:
		dst = bsoncore.AppendNullElement(dst, "value")
	case m.projection != nil:
		dst = m.projection.append(bsoncore.AppendHeader(dst, bsoncore.TypeEmbeddedDocument, "value"), shown, false)
	default:
		dst = bsoncore.AppendDocumentElement(dst, "value", shown)
	}
	return endDocument(dst, start)
}

// keep is the outcome whose answer is the whole command's.
func (w *writer) keep(statement int32, answer document) *outcome {
	if w.session == nil {
		return nil
	}
	return &outcome{statement: statement, answer: answer}
}
