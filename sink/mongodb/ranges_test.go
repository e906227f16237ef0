package mongodb

import (
	"errors"
	"math"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// A server that sorts what a filter finds, and is too slow for more than some documents,
// still answers every page, whether ids lie close together, far apart, or both.
//
// Promise(away/kindred-servers)
func TestRangesOfAnyDensity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var keys []int64
		at := rapid.Int64Range(-200, 1000).Draw(t, "first")
		clusters := rapid.IntRange(0, 6).Draw(t, "clusters")
		for range clusters {
			gap := rapid.SampledFrom([]int64{1, 2, 100, 50_000}).Draw(t, "gap")
			for range rapid.IntRange(1, 2000).Draw(t, "many") {
				if at > math.MaxInt32 {
					break
				}
				keys = append(keys, at)
				at += gap
			}
			at += rapid.Int64Range(0, 300_000_000).Draw(t, "space")
		}
		errSlow := errors.New("too slow")
		pages, sorted := 0, 0
		read := func(r span) (page []int64, last int64, err error) {
			pages++
			first, _ := slices.BinarySearch(keys, r.after+1)
			for _, key := range keys[first:] {
				if key > r.upTo() {
					break
				}
				page = append(page, key)
			}
			if sorted += len(page); len(page) > 4*pageDocuments {
				return nil, 0, errSlow
			}
			if page = page[:min(len(page), pageDocuments)]; len(page) > 0 {
				last = page[len(page)-1]
			}
			return page, last, nil
		}
		var got []int64
		for key, err := range bySpans(int64(probeUser), func(err error) bool { return errors.Is(err, errSlow) }, read) {
			if err != nil {
				t.Fatalf("behind %d of %d: %v", len(got), len(keys), err)
			}
			got = append(got, key)
		}
		if !slices.Equal(got, keys) {
			t.Fatalf("%d of %d keys", len(got), len(keys))
		}
		// A cluster that is too dense for a wide range is neared from afar, each time by all but a
		// quarter of the way: the square of the logarithm of the space before it.
		if most := 100 + 200*clusters + len(keys)/16; pages > most {
			t.Errorf("%d pages of %d keys", pages, len(keys))
		}
	})
}

// An id that is no int32 is told, wherever it lies.
func TestIDsBehindTheLastRange(t *testing.T) {
	s := start(t)
	put(t, s, newProfile(1, 1), newProfile(math.MaxInt32, 1))
	seen := 0
	for p, err := range s.AllProfiles(ctx) {
		must.OK(t, err)
		if seen++; p.UserID != []int32{1, math.MaxInt32}[seen-1] {
			t.Errorf("user %d", p.UserID)
		}
	}
	if seen != 2 {
		t.Errorf("%d profiles", seen)
	}
	if _, err := s.products.InsertOne(ctx, bson.D{{Key: fieldProduct, Value: int64(math.MaxInt32) + 1}}); err != nil {
		t.Fatal(err)
	}
	for _, err := range s.AllProducts(ctx) {
		if engine.KindOf(err) != engine.Configuration {
			t.Errorf("a product of a long id: %v", err)
		}
		return
	}
	t.Error("a product of a long id is not told")
}
