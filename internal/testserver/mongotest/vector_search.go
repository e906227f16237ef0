package mongotest

import (
	"cmp"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// aggregate serves one pipeline: a $vectorSearch alone. It takes any name for the index, and
// compares the query with every document, so that its answer is the exact one.
func aggregate(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	pipeline, _ := r.field("pipeline").ArrayOK()
	stages, err := bsoncore.Document(pipeline).Elements()
	if err != nil || len(stages) != 1 {
		return fail(codeFailedToParse, "mongotest: a pipeline must be one $vectorSearch")
	}
	stage, ok := stages[0].Value().DocumentOK()
	spec, isSearch := lookup(stage, "$vectorSearch").DocumentOK()
	if !ok || !isSearch {
		return fail(codeFailedToParse, "mongotest: a pipeline must be one $vectorSearch")
	}
	if concern, _ := r.field("readConcern").DocumentOK(); concern != nil {
		if level, _ := lookup(concern, "level").StringValueOK(); level != "" && level != "local" {
			return fail(codeInvalidOptions, "$vectorSearch cannot run with a readConcern other than 'local'. Current readConcern: %s", level)
		}
	}
	search, err := parseVectorSearch(spec)
	if err != nil {
		return err
	}
	return r.answerCursor(namespace, search.run(r.store.collection(namespace)))
}

// vectorSearch is one search.
type vectorSearch struct {
	path       string
	vector     []float64
	limit      int
	conditions []func(document) bool
}

func parseVectorSearch(spec document) (s vectorSearch, err error) {
	for e := range fields(spec) {
		switch v := e.Value(); e.Key() {
		case "path":
			s.path, _ = v.StringValueOK()
		case "queryVector":
			s.vector = numbersOf(v)
		case "limit":
			n, _ := v.AsInt64OK()
			s.limit = int(n)
		case "filter":
			query, _ := v.DocumentOK()
			s.conditions, err = parseConditions(query)
		case "index", "numCandidates":
		default:
			err = fail(codeFailedToParse, "mongotest: $vectorSearch has no option %s", e.Key())
		}
		if err != nil {
			return s, err
		}
	}
	if s.path == "" || len(s.vector) == 0 || s.limit < 1 {
		return s, fail(codeFailedToParse, "$vectorSearch needs a path, a queryVector and a limit")
	}
	return s, nil
}

// parseConditions reads {field: {$eq: value}} and {field: {$nin: values}} of fields that are no
// arrays.
func parseConditions(query document) (all []func(document) bool, err error) {
	for e := range fields(query) {
		operators, _ := e.Value().DocumentOK()
		field := e.Key()
		for o := range fields(operators) {
			var among func(value) bool
			switch wanted := o.Key() == "$eq"; {
			case wanted:
				among = oneOf([]value{o.Value()})
				all = append(all, func(doc document) bool { return among(lookup(doc, field)) })
			case o.Key() == "$nin":
				values, err := listOf("$nin", o.Value())
				if err != nil {
					return nil, err
				}
				among = oneOf(values)
				all = append(all, func(doc document) bool { return !among(lookup(doc, field)) })
			default:
				return nil, fail(codeBadValue, "mongotest: operator %s is not supported in the filter of $vectorSearch", o.Key())
			}
		}
	}
	return all, nil
}

// run returns the documents with vectors of the query's length, the largest cosine first.
func (s vectorSearch) run(c *collection) (docs []document) {
	if c == nil {
		return nil
	}
	type scored struct {
		doc    document
		cosine float64
	}
	var all []scored
	for _, doc := range c.find(&filter{conditions: s.conditions}, 0, false) {
		if v := numbersOf(lookup(doc, s.path)); len(v) == len(s.vector) {
			all = append(all, scored{doc, cosine(v, s.vector)})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.cosine, a.cosine) })
	for _, one := range all[:min(s.limit, len(all))] {
		docs = append(docs, one.doc)
	}
	return docs
}

// numbersOf returns an array's numbers, nil where it is none.
func numbersOf(v value) (numbers []float64) {
	if v.Type != bsoncore.TypeArray {
		return nil
	}
	for e := range fields(v.Data) {
		x, ok := e.Value().AsFloat64OK()
		if !ok {
			return nil
		}
		numbers = append(numbers, x)
	}
	return numbers
}

func cosine(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}
