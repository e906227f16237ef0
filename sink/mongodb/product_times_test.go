package mongodb

import (
	"maps"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func timesOf(t *testing.T, s *Store) map[int32]engine.Millis {
	t.Helper()
	all := map[int32]engine.Millis{}
	for one, err := range s.ProductTimes(ctx) {
		must.OK(t, err)
		if _, twice := all[one.ID]; twice {
			t.Errorf("product %d comes twice", one.ID)
		}
		all[one.ID] = one.WrittenAt
	}
	return all
}

// The times of all products are listed whatever types another program chose, however far
// the ids are apart; a document whose id is no whole number of 32 bits hides no other one.
func TestProductTimes(t *testing.T) {
	parallel(t)
	s := open(t, settings(uri(t), 3)) // without the index: ids of any type
	if got := timesOf(t, s); len(got) != 0 {
		t.Errorf("an empty catalogue: %v", got)
	}
	at := time.UnixMilli(1_700_000_000_000)
	want := map[int32]engine.Millis{}
	for id, doc := range map[int32]bson.D{
		math.MinInt32: {{Key: "product_id", Value: int32(math.MinInt32)}, {Key: "updated_at", Value: at}},
		-3:            {{Key: "product_id", Value: int64(-3)}, {Key: "updated_at", Value: at}},
		0:             {{Key: "product_id", Value: 0.0}},
		7:             {{Key: "product_id", Value: 7.0}, {Key: "updated_at", Value: "yesterday"}},
		1_000_000:     {{Key: "updated_at", Value: at}, {Key: "product_id", Value: int64(1_000_000)}},
		math.MaxInt32: {{Key: "product_id", Value: int32(math.MaxInt32)}, {Key: "updated_at", Value: nil}},
	} {
		if _, err := s.products.InsertOne(ctx, doc); err != nil {
			t.Fatal(err)
		}
		want[id] = 0
		for _, field := range doc {
			if field.Value == at {
				want[id] = 1_700_000_000_000
			}
		}
	}
	for _, id := range []any{"12", 3.5, int64(5_000_000_000), nil, bson.A{int32(1)}} {
		if _, err := s.products.InsertOne(ctx, bson.D{{Key: "product_id", Value: id}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := timesOf(t, s); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	_, err := s.products.DeleteMany(ctx, bson.D{{Key: "product_id", Value: bson.D{{Key: "$in", Value: bson.A{math.MinInt32, math.MaxInt32}}}}})
	must.OK(t, err)
	delete(want, math.MinInt32)
	delete(want, math.MaxInt32)
	for _, id := range []any{-1000.5, 2_000_000.5} {
		if _, err := s.products.InsertOne(ctx, bson.D{{Key: "product_id", Value: id}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := timesOf(t, s); !maps.Equal(got, want) {
		t.Errorf("between ids that are no whole numbers: %v, want %v", got, want)
	}
}

// 50,000 products are listed, each once, whether their ids lie together or far apart.
func TestProductTimesOfMany(t *testing.T) {
	parallel(t)
	s := openReady(t, settings(uri(t), 1))
	const many = 50_000
	for _, apart := range []int32{1, 40_000} {
		var all []profile.Product
		for n := range int32(many) {
			all = append(all, profile.Product{ID: (n + 1) * apart, Vector: []float32{1}})
		}
		must.OK(t, s.PutProducts(ctx, all, 1_700_000_000_000))
		began := time.Now()
		got := timesOf(t, s)
		t.Logf("%d apart: %d in %v", apart, len(got), time.Since(began))
		if len(got) != many {
			t.Errorf("%d apart: %d products", apart, len(got))
		}
		_, err := s.products.DeleteMany(ctx, bson.D{})
		must.OK(t, err)
	}
}
