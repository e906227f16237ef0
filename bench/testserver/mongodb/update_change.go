package mongotest

import (
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// change writes an updated document: elements that no modification names are
// copied as bytes, whatever they hold.
type change struct {
	dst       []byte
	inserting bool
}

// document appends doc changed by mods, which share their first depth keys and
// are sorted by path.
func (c *change) document(doc document, mods []mod, depth int) error {
	start, dst := bsoncore.AppendDocumentStart(c.dst)
	c.dst = dst
	groups := group(mods, depth)
	done := make([]bool, len(groups))
	for e := range fields(doc) {
		i := groupOf(groups, e.KeyBytes(), depth)
		if i < 0 {
			c.dst = append(c.dst, e...)
			continue
		}
		done[i] = true
		if err := c.element(e.Value(), groups[i], depth); err != nil {
			return err
		}
	}
	for i, g := range groups {
		if done[i] {
			continue
		}
		if err := c.element(value{}, g, depth); err != nil {
			return err
		}
	}
	c.dst = endDocument(c.dst, start)
	return nil
}

// group splits sorted modifications by their key at depth.
func group(mods []mod, depth int) [][]mod {
	groups := make([][]mod, 0, len(mods))
	for len(mods) > 0 {
		n := 1
		for n < len(mods) && mods[n].path[depth] == mods[0].path[depth] {
			n++
		}
		groups, mods = append(groups, mods[:n]), mods[n:]
	}
	return groups
}

func groupOf(groups [][]mod, key []byte, depth int) int {
	for i, g := range groups {
		if g[0].path[depth] == string(key) {
			return i
		}
	}
	return -1
}

// element appends what the modifications of one key make of its value, the zero
// value for an absent one.
func (c *change) element(old value, g []mod, depth int) error {
	m := &g[0]
	key := m.path[depth]
	if len(m.path) == depth+1 {
		v, err := m.result(old, c.inserting)
		if err == nil && v.Type != 0 {
			c.dst = bsoncore.AppendValueElement(c.dst, key, v)
		}
		return err
	}
	switch {
	case old.Type == bsoncore.TypeEmbeddedDocument:
		c.dst = bsoncore.AppendHeader(c.dst, old.Type, key)
		return c.document(old.Data, g, depth+1)
	case c.idle(g):
		if old.Type != 0 {
			c.dst = bsoncore.AppendValueElement(c.dst, key, old)
		}
		return nil
	case old.Type == 0:
		c.dst = bsoncore.AppendHeader(c.dst, bsoncore.TypeEmbeddedDocument, key)
		return c.document(emptyDocument, g, depth+1)
	case old.Type == bsoncore.TypeArray:
		return fail(codePathNotViable, "mongotest: updates inside arrays are not supported: '%s'", m.dotted)
	default:
		return fail(codePathNotViable, "Cannot create field '%s' in element {%s: %s}",
			m.path[depth+1], strings.Join(m.path[:depth+1], "."), old)
	}
}

// idle reports whether none of the modifications creates anything.
func (c *change) idle(g []mod) bool {
	for i := range g {
		if op := g[i].operator; op != "$unset" && (op != "$setOnInsert" || c.inserting) {
			return false
		}
	}
	return true
}

// result returns the new value of a field; the zero value removes it.
func (m *mod) result(old value, inserting bool) (value, error) {
	switch m.operator {
	case "$unset":
		return value{}, nil
	case "$setOnInsert":
		if !inserting {
			return old, nil
		}
		return m.operand, nil
	case "$inc":
		return m.increment(old)
	case "$max", "$min":
		if old.Type == 0 {
			return m.operand, nil
		}
		if d := compare(m.operand, old); d > 0 && m.operator == "$max" || d < 0 && m.operator == "$min" {
			return m.operand, nil
		}
		return old, nil
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
			m.path[len(m.path)-1], old.Type)
	}
	if old.Type == bsoncore.TypeDecimal128 || m.operand.Type == bsoncore.TypeDecimal128 {
		return value{}, fail(codeBadValue, "mongotest: $inc of decimals is not supported")
	}
	if old.Type == bsoncore.TypeDouble || m.operand.Type == bsoncore.TypeDouble {
		sum := old.AsFloat64() + m.operand.AsFloat64()
		return value{Type: bsoncore.TypeDouble, Data: bsoncore.AppendDouble(nil, sum)}, nil
	}
	a, b := old.AsInt64(), m.operand.AsInt64()
	sum := a + b
	if (sum > a) != (b > 0) && b != 0 {
		return value{}, fail(codeBadValue, "Failed to apply $inc operations to current value (%d) for document: overflow", a)
	}
	if old.Type == bsoncore.TypeInt32 && m.operand.Type == bsoncore.TypeInt32 && sum >= math.MinInt32 && sum <= math.MaxInt32 {
		return value{Type: bsoncore.TypeInt32, Data: bsoncore.AppendInt32(nil, int32(sum))}, nil
	}
	return value{Type: bsoncore.TypeInt64, Data: bsoncore.AppendInt64(nil, sum)}, nil
}
