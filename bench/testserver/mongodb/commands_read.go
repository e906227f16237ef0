package mongotest

// query is what a find reads.
type query struct {
	filter     *filter
	projection *projection
	order      ordering
	limit      int // 0 for all
	majority   bool
}

// run returns the documents of a query, projected.
func (q *query) run(c *collection) []document {
	if c == nil {
		return nil
	}
	enough := 0
	if len(q.order) == 0 {
		enough = q.limit
	}
	docs := c.find(q.filter, enough, q.majority)
	q.order.sort(docs)
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
	q.limit = int(r.number("limit", 0))
	q.majority, err = r.majority()
	return q, err
}

func find(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	err = r.refuseFields("collation", "min", "max", "let", "skip", "returnKey", "showRecordId", "tailable")
	if err != nil {
		return err
	}
	q, err := r.parseQuery()
	if err != nil {
		return err
	}
	return r.answerCursor(namespace, q.run(r.store.collection(namespace)))
}
