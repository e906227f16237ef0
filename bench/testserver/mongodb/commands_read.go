package mongotest

// query is what a find reads.
type query struct {
	filter     *filter
	projection *projection
	order      ordering
	skip       int
	limit      int // 0 for all
	majority   bool
}

// run returns the documents of a query, projected.
func (q *query) run(c *collection) []document {
	if c == nil {
		return nil
	}
	enough := 0
	if q.limit > 0 && len(q.order) == 0 {
		enough = q.skip + q.limit
	}
	docs := c.find(q.filter, enough, q.majority)
	q.order.sort(docs)
	docs = docs[min(q.skip, len(docs)):]
	if q.limit > 0 {
		docs = docs[:min(q.limit, len(docs))]
	}
	if q.projection == nil {
		return docs
	}
	for i, doc := range docs {
		docs[i] = q.projection.apply(doc)
	}
	return docs
}

func (r *request) parseQuery() (*query, error) {
	q := &query{}
	spec, err := r.optional("filter")
	if err != nil {
		return nil, err
	}
	if q.filter, err = parseFilter(spec); err != nil {
		return nil, err
	}
	if spec, err = r.optional("projection"); err != nil {
		return nil, err
	}
	if q.projection, err = parseProjection(spec); err != nil {
		return nil, err
	}
	if spec, err = r.optional("sort"); err != nil {
		return nil, err
	}
	if q.order, err = parseOrdering(spec); err != nil {
		return nil, err
	}
	skip, limit := r.number("skip", 0), r.number("limit", 0)
	if skip < 0 {
		return nil, fail(codeBadValue, "Skip value must be non-negative, but received: %d", skip)
	}
	q.skip, q.limit = int(skip), int(max(limit, -limit))
	q.majority, err = r.majority()
	return q, err
}

func find(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	err = r.refuseFields("collation", "min", "max", "let", "returnKey", "showRecordId", "tailable", "awaitData")
	if err != nil {
		return err
	}
	q, err := r.parseQuery()
	if err != nil {
		return err
	}
	return r.answerCursor(namespace, q.run(r.store.collection(namespace)))
}
