package mongotest

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// aggregate runs the stages that counting and looking at documents need.
func aggregate(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	if err := r.refuseFields("collation", "let", "explain"); err != nil {
		return err
	}
	stages, err := r.pipeline()
	if err != nil {
		return err
	}
	majority, err := r.majority()
	if err != nil {
		return err
	}
	first := &filter{root: allOf(nil)}
	if len(stages) > 0 && stages[0].name == "$match" {
		if first, err = stages[0].filter(); err != nil {
			return err
		}
		stages = stages[1:]
	}
	var docs []document
	if c := r.store.collection(namespace); c != nil {
		docs = c.find(first, 0, majority)
	}
	for _, s := range stages {
		if docs, err = s.apply(docs); err != nil {
			return err
		}
	}
	return r.answerCursor(namespace, docs)
}

// stage is one step of a pipeline.
type stage struct {
	name string
	spec value
}

func (r *request) pipeline() ([]stage, error) {
	list, ok := r.field("pipeline").ArrayOK()
	if !ok {
		return nil, fail(codeTypeMismatch, "'pipeline' option must be specified as an array")
	}
	var stages []stage
	for e := range fields(list) {
		doc, _ := e.Value().DocumentOK()
		s := newScan(doc)
		first, ok := s.next()
		if _, more := s.next(); !ok || more {
			return nil, fail(40323, "A pipeline stage specification object must contain exactly one field.")
		}
		stages = append(stages, stage{first.Key(), first.Value()})
	}
	return stages, nil
}

func (s stage) filter() (*filter, error) {
	doc, ok := s.spec.DocumentOK()
	if !ok {
		return nil, fail(15959, "the match filter must be an expression in an object")
	}
	return parseFilter(doc)
}

func (s stage) apply(docs []document) ([]document, error) {
	switch s.name {
	case "$match":
		f, err := s.filter()
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(docs, func(d document) bool { return !f.matches(d) }), nil
	case "$skip", "$limit":
		n, ok := s.spec.AsInt64OK()
		if !ok || n < 0 || n == 0 && s.name == "$limit" {
			return nil, fail(15958, "the %s must be positive", s.name[1:])
		}
		at := min(int(n), len(docs))
		if s.name == "$skip" {
			return docs[at:], nil
		}
		return docs[:at], nil
	case "$sort":
		spec, _ := s.spec.DocumentOK()
		o, err := parseOrdering(spec)
		o.sort(docs)
		return docs, err
	case "$project":
		return s.project(docs)
	case "$count":
		return s.count(docs)
	case "$group":
		return s.group(docs)
	default:
		return nil, fail(codeUnknownStage, "Unrecognized pipeline stage name: '%s' (mongotest knows $match, $skip, "+
			"$limit, $sort, $project, $count and $group with a constant _id)", s.name)
	}
}

func (s stage) project(docs []document) ([]document, error) {
	spec, _ := s.spec.DocumentOK()
	p, err := parseProjection(spec)
	if err != nil || p == nil {
		return docs, err
	}
	projected := make([]document, len(docs))
	for i, doc := range docs {
		projected[i] = p.append(nil, doc, false)
	}
	return projected, nil
}

func (s stage) count(docs []document) ([]document, error) {
	name, ok := s.spec.StringValueOK()
	if !ok || name == "" {
		return nil, fail(40156, "the count field must be a non-empty string")
	}
	if len(docs) == 0 {
		return nil, nil
	}
	return []document{bsoncore.NewDocumentBuilder().AppendInt32(name, int32(len(docs))).Build()}, nil
}

// group makes one group of all documents: {_id: constant, name: {$sum: number}}.
func (s stage) group(docs []document) ([]document, error) {
	spec, _ := s.spec.DocumentOK()
	start, dst := bsoncore.AppendDocumentStart(nil)
	for e := range fields(spec) {
		v := e.Value()
		if e.Key() == "_id" {
			if text, ok := v.StringValueOK(); ok && len(text) > 0 && text[0] == '$' || v.Type == bsoncore.TypeEmbeddedDocument {
				return nil, fail(codeNotSupported, "mongotest: $group needs a constant _id")
			}
			dst = bsoncore.AppendValueElement(dst, "_id", v)
			continue
		}
		inner, _ := v.DocumentOK()
		each, ok := lookup(inner, "$sum").AsInt64OK()
		if !ok {
			return nil, fail(codeNotSupported, "mongotest: $group knows only {$sum: number}")
		}
		dst = bsoncore.AppendInt32Element(dst, e.Key(), int32(each)*int32(len(docs)))
	}
	if len(docs) == 0 {
		return nil, nil
	}
	return []document{endDocument(dst, start)}, nil
}
