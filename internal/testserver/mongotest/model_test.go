package mongotest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"keyfold/internal/testserver/must"
)

// The reference: documents decoded into Go values, and scalars compared as such.

type absent struct{}

func rankOf(v any) int {
	switch v.(type) {
	case nil, absent:
		return 1
	case int32, int64, float64:
		return 2
	case string:
		return 3
	case bson.D:
		return 4
	case bson.A:
		return 5
	default: // bool
		return 6
	}
}

func realOf(v any) float64 {
	switch v := v.(type) {
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	default:
		return v.(float64)
	}
}

func referenceCompare(a, b any) int {
	if d := cmp.Compare(rankOf(a), rankOf(b)); d != 0 {
		return d
	}
	switch a := a.(type) {
	case int32, int64, float64:
		return cmp.Compare(realOf(a), realOf(b)) // small: exact
	case string:
		return cmp.Compare(a, b.(string))
	case bool:
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) // false, true
	default:
		return 0
	}
}

func get(doc bson.D, key string) any {
	for _, e := range doc {
		if e.Key == key {
			return e.Value
		}
	}
	return absent{}
}

// seen returns what a query on a field sees.
func seen(doc bson.D, field string) []any {
	v := get(doc, field)
	if list, ok := v.(bson.A); ok {
		return append(slices.Clone([]any(list)), v)
	}
	return []any{v}
}

func referenceMatches(doc, query bson.D) bool {
	return !slices.ContainsFunc(query, func(e bson.E) bool { return !referenceField(seen(doc, e.Key), e.Value) })
}

func referenceField(values []any, condition any) bool {
	operators, ok := condition.(bson.D)
	if !ok || len(operators) == 0 || operators[0].Key[0] != '$' {
		operators = bson.D{{Key: "$eq", Value: condition}}
	}
	for _, o := range operators {
		if !referenceOperator(values, o.Key, o.Value) {
			return false
		}
	}
	return true
}

func referenceOperator(values []any, operator string, want any) bool {
	switch operator {
	case "$exists":
		_, none := values[len(values)-1].(absent)
		return none != want.(bool)
	case "$in":
		return slices.ContainsFunc(want.(bson.A), func(w any) bool { return referenceOperator(values, "$eq", w) })
	}
	return slices.ContainsFunc(values, func(v any) bool {
		d := referenceCompare(v, want)
		same := rankOf(v) == rankOf(want)
		switch operator {
		case "$eq":
			return d == 0
		case "$gt":
			return same && d > 0
		case "$lt":
			return same && d < 0
		case "$lte":
			return same && d <= 0
		default: // $gte
			return same && d >= 0
		}
	})
}

// referenceUpdate applies one change; ok is false where a server refuses it.
func referenceUpdate(doc bson.D, operator, field string, operand any) (changed bson.D, ok bool) {
	doc = slices.Clone(doc)
	i := slices.IndexFunc(doc, func(e bson.E) bool { return e.Key == field })
	v, ok := referenceResult(get(doc, field), operator, operand)
	if !ok {
		return nil, false
	}
	switch _, gone := v.(absent); {
	case gone && i >= 0:
		return slices.Delete(doc, i, i+1), true
	case gone:
		return doc, true
	case i >= 0:
		doc[i].Value = v
		return doc, true
	default:
		return append(doc, bson.E{Key: field, Value: v}), true
	}
}

func referenceResult(old any, operator string, operand any) (any, bool) {
	_, none := old.(absent)
	switch {
	case operator == "$unset":
		return absent{}, true
	case operator == "$set", none && operator != "$setOnInsert":
		return operand, true
	case operator == "$inc":
		if rankOf(old) != 2 {
			return nil, false
		}
		sum := realOf(old) + realOf(operand)
		_, a := old.(float64)
		_, b := operand.(float64)
		_, c := old.(int64)
		_, e := operand.(int64)
		switch {
		case a || b:
			return sum, true
		case c || e || sum > math.MaxInt32:
			return int64(sum), true
		default:
			return int32(sum), true
		}
	default:
		return old, true
	}
}

// Generators: few fields and few values, so that things meet.

var names = rapid.SampledFrom([]string{"a", "b", "c", "d"})

func scalars() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		n := rapid.IntRange(-1, 3).Draw(t, "n")
		switch rapid.IntRange(0, 7).Draw(t, "type") {
		case 0, 1:
			return int32(n)
		case 2:
			return int64(n)
		case 3:
			return float64(n) / 2
		case 4:
			return "abc"[:max(n, 0)]
		case 5:
			return n > 0
		case 6:
			return int32(math.MaxInt32)
		default:
			return nil
		}
	})
}

func values() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return bson.A(rapid.SliceOfN(scalars(), 0, 2).Draw(t, "array"))
		case 1:
			return bson.D{{Key: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "key"), Value: scalars().Draw(t, "inner")}}
		default:
			return scalars().Draw(t, "value")
		}
	})
}

func documents() *rapid.Generator[bson.D] {
	return rapid.Custom(func(t *rapid.T) bson.D {
		d := bson.D{}
		for _, key := range []string{"a", "b", "c", "d"} {
			if rapid.Bool().Draw(t, "has "+key) {
				d = append(d, bson.E{Key: key, Value: values().Draw(t, key)})
			}
		}
		return d
	})
}

func conditions() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		operator := rapid.SampledFrom([]string{"", "", "$gt", "$gte", "$lt", "$lte", "$in", "$exists"}).Draw(t, "operator")
		switch operator {
		case "":
			return scalars().Draw(t, "operand")
		case "$in":
			return one(operator, bson.A(rapid.SliceOfN(scalars(), 0, 7).Draw(t, "list")))
		case "$exists":
			return one(operator, rapid.Bool().Draw(t, "exists"))
		default:
			return one(operator, scalars().Draw(t, "operand"))
		}
	})
}

func queries() *rapid.Generator[bson.D] {
	return rapid.Custom(func(t *rapid.T) bson.D {
		q := bson.D{}
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			q = append(q, bson.E{Key: names.Draw(t, "field"), Value: conditions().Draw(t, "condition")})
		}
		return q
	})
}

func encode(t *rapid.T, d bson.D) document {
	if d == nil {
		d = bson.D{}
	}
	raw, err := bson.Marshal(d)
	must.OK(t, err)
	return raw
}

// A query finds what the reference finds, with indexes and without.
func TestFilterEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(documents(), 1, 12).Draw(t, "documents")
		query := queries().Draw(t, "query")
		st := newStore()
		c := st.ensure("db.c")
		for _, field := range rapid.SliceOfDistinct(names, rapid.ID[string]).Draw(t, "indexed") {
			must := c.addIndex(newIndex(field, field, value{}, false))
			if must != nil {
				t.Fatal(must)
			}
		}
		w := &writer{store: st}
		var want []string
		for i, d := range docs {
			stored := encode(t, append(bson.D{{Key: "_id", Value: int32(i)}}, d...))
			must.OK(t, c.write(w, &record{}, stored, nil))
			if referenceMatches(d, query) {
				want = append(want, string(stored))
			}
		}
		f, err := parseFilter(encode(t, query))
		must.OK(t, err)
		var got []string
		for _, d := range c.find(f, 0, false) {
			got = append(got, string(d))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%d found, want %d", len(got), len(want))
		}
	})
}

// Equal keys are equal values, and no key begins another.
func TestKeysEqualComparison(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := scalars().Draw(t, "a"), scalars().Draw(t, "b")
		x, y := lookup(encode(t, one("v", a)), "v"), lookup(encode(t, one("v", b)), "v")
		d := referenceCompare(a, b)
		if compare(x, y) != d || compare(y, x) != -d {
			t.Fatalf("compare is %d, want %d", compare(x, y), d)
		}
		kx, ky := appendKey(nil, x), appendKey(nil, y)
		if bytes.Equal(kx, ky) != (d == 0) || d != 0 && bytes.HasPrefix(kx, ky) {
			t.Fatalf("keys %x and %x at order %d", kx, ky, d)
		}
	})
}

// Pairs that chance seldom makes.
func TestKeysOfNearlyEqualValues(t *testing.T) {
	all := []any{
		bson.D{{Key: "x", Value: 1}},
		bson.D{{Key: "y", Value: 1}},
		bson.D{{Key: "x", Value: 1}, {Key: "y", Value: 1}},
		bson.A{1},
		bson.A{1, 1},
		bson.A{bson.A{1}, 1},
		bson.A{bson.A{1, 1}},
		"", "a", "a\x00", "1",
		int64(1) << 53, int64(1)<<53 + 1, math.MaxInt64, float64(1 << 53), math.Pow(2, 63), -math.Pow(2, 63), int64(math.MinInt64),
		0.5, math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1), bson.DateTime(0),
		bson.Timestamp{T: 1},
		false,
	}
	equal := 0
	for i, a := range all {
		for j, b := range all {
			raw, err := bson.Marshal(bson.D{{Key: "a", Value: a}, {Key: "b", Value: b}})
			must.OK(t, err)
			x, y := lookup(raw, "a"), lookup(raw, "b")
			d := compare(x, y)
			if d != -compare(y, x) || bytes.Equal(appendKey(nil, x), appendKey(nil, y)) != (d == 0) {
				t.Errorf("%v and %v: order %d, keys %x and %x", a, b, d, appendKey(nil, x), appendKey(nil, y))
			}
			if d == 0 && i != j {
				equal++
			}
		}
	}
	if equal != 2*3 { // 2^53, -2^63 and 0, each in two forms
		t.Errorf("%d pairs are equal", equal)
	}
}

func TestUpdateEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := append(bson.D{{Key: "_id", Value: int32(1)}}, documents().Draw(t, "document")...)
		where := rapid.SliceOfNDistinct(names, 1, 4, rapid.ID[string]).Draw(t, "fields")
		slices.Sort(where) // as a server does
		change, want, fine := bson.D{}, doc, true
		for _, p := range where {
			operator := rapid.SampledFrom([]string{"$set", "$unset", "$inc", "$setOnInsert"}).Draw(t, "operator")
			operand := values().Draw(t, "operand")
			if operator == "$inc" {
				operand = rapid.SampledFrom([]any{int32(1), int64(2), 0.5}).Draw(t, "number")
			}
			i := slices.IndexFunc(change, func(e bson.E) bool { return e.Key == operator })
			if i < 0 {
				i = len(change)
				change = append(change, bson.E{Key: operator, Value: bson.D{}})
			}
			change[i].Value = append(change[i].Value.(bson.D), bson.E{Key: p, Value: operand})
			if operator == "$setOnInsert" || !fine {
				continue
			}
			want, fine = referenceUpdate(want, operator, p, operand)
		}
		u, err := parseUpdate(lookup(encode(t, one("u", change)), "u"))
		must.OK(t, err)
		old := encode(t, doc)
		before := bytes.Clone(old)
		got, err := u.apply(old)
		if (err == nil) != fine {
			t.Fatalf("%v: error %v, reference says fine is %v", change, err, fine)
		}
		if !bytes.Equal(old, before) {
			t.Fatal("the stored document was changed in place")
		}
		if fine && !bytes.Equal(got, encode(t, want)) {
			t.Fatalf("%v:\n got %s\nwant %v", change, got, want)
		}
	})
}
