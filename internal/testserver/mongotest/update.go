package mongotest

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// update is a compiled change: a replacement document, or modifications in the
// order of their fields.
type update struct {
	replacement document
	mods        []mod
}

// mod changes one field.
type mod struct {
	operator string
	field    string
	operand  value
}

// parseUpdate reads the u of an update statement.
func parseUpdate(u value) (*update, error) {
	doc, ok := u.DocumentOK()
	if !ok {
		return nil, fail(codeFailedToParse, "mongotest: an update must be a document; pipelines are not supported")
	}
	if !isOperators(u) {
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
	case "$set", "$unset", "$inc", "$setOnInsert":
	default:
		return fail(codeFailedToParse, "Unknown modifier: %s (mongotest knows $set, $unset, $inc and $setOnInsert)", operator)
	}
	changes, ok := v.DocumentOK()
	if !ok {
		return fail(codeFailedToParse, "Modifiers operate on fields but we found type %s instead", v.Type)
	}
	for e := range fields(changes) {
		m := mod{operator, e.Key(), e.Value()}
		if err := refuseName(m.field); err != nil {
			return err
		}
		if operator == "$inc" && classOf(m.operand.Type) != classNumber {
			return fail(codeTypeMismatch, "Cannot increment with non-numeric argument: {%s: %s}", m.field, m.operand)
		}
		u.mods = append(u.mods, m)
	}
	return nil
}

// arrange sorts the modifications by field and refuses two of one.
func (u *update) arrange() error {
	slices.SortStableFunc(u.mods, func(a, b mod) int { return cmp.Compare(a.field, b.field) })
	for i := 1; i < len(u.mods); i++ {
		if field := u.mods[i].field; field == u.mods[i-1].field {
			return fail(codeConflictingOperators, "Updating the path '%s' would create a conflict at '%s'", field, field)
		}
	}
	return nil
}

// apply returns the document that the update makes of old, which is only read:
// old itself where there was nothing to do.
func (u *update) apply(old document) (document, error) {
	dst, err := u.changed(old, false)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(old, dst) {
		return old, nil
	}
	if now := lookup(dst, "_id"); now.Type == 0 || compare(lookup(old, "_id"), now) != 0 {
		return nil, fail(codeImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	return sized(dst)
}

// changed returns the replacement, with doc's _id in front where it names none, or doc as
// the modifications change it. Elements that none names are copied as bytes, whatever
// they hold.
func (u *update) changed(doc document, inserting bool) (document, error) {
	start, dst := bsoncore.AppendDocumentStart(nil)
	if u.replacement != nil {
		if id := lookup(doc, "_id"); id.Type != 0 && lookup(u.replacement, "_id").Type == 0 {
			dst = bsoncore.AppendValueElement(dst, "_id", id)
		}
		return endDocument(append(dst, u.replacement[4:len(u.replacement)-1]...), start), nil
	}
	done := make([]bool, len(u.mods))
	change := func(i int, old value) error {
		v, err := u.mods[i].result(old, inserting)
		if err == nil && v.Type != 0 {
			dst = bsoncore.AppendValueElement(dst, u.mods[i].field, v)
		}
		return err
	}
	for e := range fields(doc) {
		i := slices.IndexFunc(u.mods, func(m mod) bool { return m.field == string(e.KeyBytes()) })
		if i < 0 {
			dst = append(dst, e...)
			continue
		}
		done[i] = true
		if err := change(i, e.Value()); err != nil {
			return nil, err
		}
	}
	for i := range u.mods {
		if done[i] {
			continue
		}
		if err := change(i, value{}); err != nil {
			return nil, err
		}
	}
	return endDocument(dst, start), nil
}

// result returns the new value of a field; the zero value removes it.
func (m *mod) result(old value, inserting bool) (value, error) {
	switch {
	case m.operator == "$unset":
		return value{}, nil
	case m.operator == "$setOnInsert" && !inserting:
		return old, nil
	case m.operator == "$inc":
		return m.increment(old)
	default:
		return m.operand, nil
	}
}

// increment adds in the wider of the two types; int32 grows into int64.
func (m *mod) increment(old value) (value, error) {
	if old.Type == 0 {
		return m.operand, nil
	}
	if classOf(old.Type) != classNumber {
		return value{}, fail(codeTypeMismatch, "Cannot apply $inc to a value of non-numeric type. The document has the field '%s' of non-numeric type %s",
			m.field, old.Type)
	}
	if old.Type == bsoncore.TypeDouble || m.operand.Type == bsoncore.TypeDouble {
		sum := old.AsFloat64() + m.operand.AsFloat64()
		return value{Type: bsoncore.TypeDouble, Data: bsoncore.AppendDouble(nil, sum)}, nil
	}
	sum := old.AsInt64() + m.operand.AsInt64()
	if old.Type == bsoncore.TypeInt32 && m.operand.Type == bsoncore.TypeInt32 && sum >= math.MinInt32 && sum <= math.MaxInt32 {
		return value{Type: bsoncore.TypeInt32, Data: bsoncore.AppendInt32(nil, int32(sum))}, nil
	}
	return value{Type: bsoncore.TypeInt64, Data: bsoncore.AppendInt64(nil, sum)}, nil
}

// insert returns the document an upsert creates: what the filter says every
// match must have, and the update applied to it.
func (u *update) insert(f *filter) (document, error) {
	base, err := f.base()
	if err != nil {
		return nil, err
	}
	doc, err := u.changed(base, true)
	if err != nil {
		return nil, err
	}
	if was, is := lookup(base, "_id"), lookup(doc, "_id"); was.Type != 0 && compare(was, is) != 0 {
		return nil, fail(codeImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
	}
	return sized(withID(doc))
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
			u.mods = append(u.mods, mod{"$set", e.field, e.values[0]})
		}
	}
	if err := u.arrange(); err != nil {
		return nil, fail(codeBadValue, "cannot infer query fields to set: %s", err)
	}
	return u.changed(emptyDocument, false)
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
