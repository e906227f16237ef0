package mongotest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// ordering is a sort specification.
type ordering []orderBy

type orderBy struct {
	field      string
	descending bool
}

func parseOrdering(spec document) (ordering, error) {
	var o ordering
	for e := range fields(spec) {
		direction, ok := e.Value().AsInt64OK()
		if !ok || direction != 1 && direction != -1 {
			return nil, fail(codeBadValue, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
		}
		if err := refuseName(e.Key()); err != nil {
			return nil, err
		}
		o = append(o, orderBy{e.Key(), direction < 0})
	}
	return o, nil
}

func (o ordering) sort(docs []document) {
	if len(o) == 0 {
		return
	}
	slices.SortStableFunc(docs, o.compare)
}

func (o ordering) compare(a, b document) int {
	for _, by := range o {
		d := compare(by.extreme(a), by.extreme(b))
		if by.descending {
			d = -d
		}
		if d != 0 {
			return d
		}
	}
	return 0
}

// extreme returns what a document is sorted by: of an array its least element,
// or its greatest where the order is descending.
func (by orderBy) extreme(doc document) value {
	var best value
	first := true
	visit(lookup(doc, by.field), func(v value) bool {
		if v.Type == bsoncore.TypeArray {
			return false
		}
		if d := compare(v, best); first || by.descending && d > 0 || !by.descending && d < 0 {
			best, first = v, false
		}
		return false
	})
	return best
}
