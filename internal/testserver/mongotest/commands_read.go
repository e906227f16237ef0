package mongotest

import "slices"

// query is what a find reads.
type query struct {
	filter     *filter
	projection projection
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
	if q.order.field == "" {
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

// ordering is a sort by one field; none where it is "".
type ordering struct {
	field      string
	descending bool
}

func parseOrdering(spec document) (o ordering, err error) {
	for e := range fields(spec) {
		direction, _ := e.Value().AsInt64OK()
		if direction != 1 && direction != -1 || o.field != "" {
			return o, fail(codeBadValue, "mongotest: a sort must be {field: 1} or {field: -1}, got %s", spec)
		}
		o = ordering{e.Key(), direction < 0}
		err = refuseName(o.field)
	}
	return o, err
}

func (o ordering) sort(docs []document) {
	if o.field == "" {
		return
	}
	slices.SortStableFunc(docs, func(a, b document) int {
		if o.descending {
			a, b = b, a
		}
		return compare(lookup(a, o.field), lookup(b, o.field))
	})
}

func find(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	if err := r.refuseFields("collation", "min", "max", "let", "skip", "returnKey", "showRecordId", "tailable"); err != nil {
		return err
	}
	specs := map[string]document{}
	for _, key := range []string{"filter", "projection", "sort"} {
		if specs[key], err = r.optional(key); err != nil {
			return err
		}
	}
	q := &query{limit: int(r.number("limit", 0))}
	if q.filter, err = parseFilter(specs["filter"]); err != nil {
		return err
	}
	if q.projection, err = parseProjection(specs["projection"]); err != nil {
		return err
	}
	if q.order, err = parseOrdering(specs["sort"]); err != nil {
		return err
	}
	if q.majority, err = r.majority(); err != nil {
		return err
	}
	c := r.store.collection(namespace)
	if r.store.mongos && namespace == configCollections {
		c = r.store.shardedCollections()
	}
	c.targeted(r.name, specs["filter"], q.filter)
	return r.answerCursor(namespace, q.run(c))
}
