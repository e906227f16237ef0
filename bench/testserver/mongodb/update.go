package mongotest

import (
	"bytes"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// update is a compiled change: a replacement document, or modifications in the
// order of their paths.
type update struct {
	replacement document
	mods        []mod
}

// mod changes one path.
type mod struct {
	operator string
	dotted   string
	path     path
	operand  value
}

// parseUpdate reads the u of an update statement.
func parseUpdate(u value) (*update, error) {
	doc, ok := u.DocumentOK()
	if !ok {
		return nil, fail(codeFailedToParse, "mongotest: an update must be a document; pipelines are not supported")
	}
	if !isOperators(u) {
		for e := range fields(doc) {
			if strings.HasPrefix(e.Key(), "$") {
				return nil, fail(codeBadValue, "The dollar ($) prefixed field '%s' is not allowed in a replacement", e.Key())
			}
		}
		return &update{replacement: doc}, nil
	}
	up := &update{}
	for e := range fields(doc) {
		if err := up.parseOperator(e.Key(), e.Value()); err != nil {
			return nil, err
		}
	}
	return up, up.arrange()
}

func (u *update) parseOperator(operator string, v value) error {
	switch operator {
	case "$set", "$unset", "$inc", "$max", "$min", "$setOnInsert":
	default:
		return fail(codeFailedToParse, "Unknown modifier: %s. Expected a valid update modifier or pipeline-style "+
			"update specified as an array (mongotest knows $set, $unset, $inc, $max, $min and $setOnInsert)", operator)
	}
	changes, ok := v.DocumentOK()
	if !ok {
		return fail(codeFailedToParse, "Modifiers operate on fields but we found type %s instead", v.Type)
	}
	for e := range fields(changes) {
		m := mod{operator, e.Key(), parsePath(e.Key()), e.Value()}
		for _, part := range m.path {
			if part == "" {
				return fail(codeEmptyFieldName, "The update path '%s' contains an empty field name, which is not allowed.", m.dotted)
			}
			if part[0] == '$' {
				return fail(codeBadValue, "mongotest: positional operators are not supported: '%s'", m.dotted)
			}
		}
		if operator == "$inc" && classOf(m.operand.Type) != classNumber {
			return fail(codeTypeMismatch, "Cannot increment with non-numeric argument: {%s: %s}", m.dotted, m.operand)
		}
		u.mods = append(u.mods, m)
	}
	return nil
}

// arrange sorts the modifications by path and refuses two of them on one path,
// or on a path and its beginning.
func (u *update) arrange() error {
	slices.SortStableFunc(u.mods, func(a, b mod) int { return slices.Compare(a.path, b.path) })
	for i := 1; i < len(u.mods); i++ {
		a, b := u.mods[i-1].path, u.mods[i].path
		if len(a) <= len(b) && slices.Equal(a, b[:len(a)]) {
			return fail(codeConflictingOperators, "Updating the path '%s' would create a conflict at '%s'",
				u.mods[i].dotted, u.mods[i-1].dotted)
		}
	}
	return nil
}

// apply returns the document that the update makes of old, which is only read:
// old itself where there was nothing to do, and otherwise one of exactly the
// size it needs. It is built in scratch, which grows as needed.
func (u *update) apply(old document, scratch *[]byte) (document, error) {
	c := change{dst: (*scratch)[:0]}
	id := lookup(old, "_id")
	if u.replacement != nil {
		c.dst = appendReplacement(c.dst, id, u.replacement)
	} else if err := c.document(old, u.mods, 0); err != nil {
		return nil, err
	}
	*scratch = c.dst
	if bytes.Equal(old, c.dst) {
		return old, nil
	}
	if now := lookup(c.dst, "_id"); now.Type == 0 || compare(id, now) != 0 {
		return nil, fail(codeImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	return sized(slices.Clone(c.dst))
}

// appendReplacement appends the replacement, with the stored _id in front where
// it names none.
func appendReplacement(dst []byte, id value, replacement document) []byte {
	if id.Type == 0 || lookup(replacement, "_id").Type != 0 {
		return append(dst, replacement...)
	}
	start, dst := bsoncore.AppendDocumentStart(dst)
	dst = bsoncore.AppendValueElement(dst, "_id", id)
	return endDocument(append(dst, replacement[4:len(replacement)-1]...), start)
}

// insert returns the document an upsert creates: what the filter says every
// match must have, and the update applied to it.
func (u *update) insert(f *filter) (document, error) {
	base, err := f.base()
	if err != nil {
		return nil, err
	}
	if u.replacement != nil {
		return sized(withID(appendReplacement(nil, lookup(base, "_id"), u.replacement)))
	}
	c := change{inserting: true}
	if err := c.document(base, u.mods, 0); err != nil {
		return nil, err
	}
	if was, is := lookup(base, "_id"), lookup(c.dst, "_id"); was.Type != 0 && compare(was, is) != 0 {
		return nil, fail(codeImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	return sized(withID(c.dst))
}

// sized refuses a document that has become too large.
func sized(doc document) (document, error) {
	if len(doc) > maxDocument {
		return nil, fail(codeUpdateTooLarge, "Resulting document after update is larger than %d", maxDocument)
	}
	return doc, nil
}

// base returns the document of the filter's plain equalities.
func (f *filter) base() (document, error) {
	var u update
	for _, e := range f.equals {
		if e.exact {
			u.mods = append(u.mods, mod{"$set", e.field, parsePath(e.field), e.values[0]})
		}
	}
	if err := u.arrange(); err != nil {
		return nil, fail(codeBadValue, "cannot infer query fields to set: %s", err)
	}
	c := change{}
	err := c.document(emptyDocument, u.mods, 0)
	return c.dst, err
}

// emptyDocument is {}.
var emptyDocument = document{5, 0, 0, 0, 0}

// withID puts a document's _id in front, after making one where there is none.
// The result is never the argument.
func withID(doc document) document {
	s := newScan(doc)
	first, _ := s.next()
	if len(first) > 0 && string(first.KeyBytes()) == "_id" {
		return slices.Clone(doc)
	}
	id := lookup(doc, "_id")
	start, dst := bsoncore.AppendDocumentStart(make([]byte, 0, len(doc)+17))
	if id.Type == 0 {
		dst = bsoncore.AppendObjectIDElement(dst, "_id", bson.NewObjectID())
	} else {
		dst = bsoncore.AppendValueElement(dst, "_id", id)
	}
	for e := range fields(doc) {
		if string(e.KeyBytes()) != "_id" {
			dst = append(dst, e...)
		}
	}
	return endDocument(dst, start)
}
