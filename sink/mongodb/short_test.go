package mongodb

import (
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// withShort is a plain document with a second vector.
func withShort(change ...bson.E) []byte {
	return plain(append([]bson.E{
		{Key: "embedding_short", Value: bson.A{0.0, 0.6, 0.8}},
		{Key: "mass_short", Value: 0.5},
		{Key: "short_half_life", Value: int32(60)},
		{Key: "short_version", Value: int32(12)},
	}, change...)...)
}

// A second vector that is not of the document's version was left by a worker that knows
// none: its events are not in it.
func TestSecondVectorOfAnOlderVersion(t *testing.T) {
	c := newCodec(3, Array, "m")
	if p, err := c.profile(withShort()); err != nil || len(p.Short.Vector) != 3 || p.Short.Mass != 0.5 || p.Short.HalfLife != time.Minute {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, change := range []bson.E{{Key: "version", Value: int32(13)}, {Key: "short_version", Value: gone}, {Key: "embedding_short", Value: gone}} {
		if p, err := c.profile(withShort(change)); err != nil || p.Short.Vector != nil || p.Short.HalfLife != 0 {
			t.Errorf("%v: %+v, %v", change, p, err)
		}
	}
}

func TestDamagedSecondVector(t *testing.T) {
	c := newCodec(3, Array, "m")
	for _, change := range []bson.E{
		{Key: "embedding_short", Value: bson.A{0.6, 0.8}},
		{Key: "embedding_short", Value: "text"},
		{Key: "mass_short", Value: -1.0},
		{Key: "short_half_life", Value: int32(0)},
		{Key: "short_half_life", Value: "1m"},
		{Key: "short_half_life", Value: gone},
		{Key: "mass_short", Value: gone},
		{Key: "mass_short", Value: math.NaN()},
		{Key: "embedding_short", Value: bson.A{math.NaN(), 0.0, 0.0}},
	} {
		if p, err := c.profile(withShort(change)); err == nil {
			t.Errorf("%v: read as %+v", change, p)
		}
	}
}

// A profile that is made anew with other dimensions loses what an earlier worker left of a second vector:
// the collection's rule refuses it.
func TestRemainsOfASecondVectorGo(t *testing.T) {
	c := settings(uri(t), 4)
	store := openReady(t, c)
	p := sample(4)
	p.Version, p.Short = 1, profile.Short{Vector: p.Vector, Mass: 2, HalfLife: time.Minute}
	err := store.Swap(t.Context(), []*profile.Profile{p})[0]
	if err == nil {
		_, err = store.users.UpdateOne(t.Context(), bson.D{{Key: fieldUser, Value: p.UserID}}, bson.D{{Key: "$set", Value: bson.D{{Key: fieldVersion, Value: int32(2)}}}})
	}
	must.OK(t, err)
	c.Dimensions = 8
	other := openReady(t, c)
	next := sample(8)
	next.UserID, next.Version, next.DropShort = p.UserID, 3, true
	if err := other.Swap(t.Context(), []*profile.Profile{next})[0]; err != nil {
		t.Error(err)
	}
}

// A profile in a cache does not keep the document that it was read from.
func TestReadProfileKeepsNoDocument(t *testing.T) {
	d := profileReader{codec: newCodec(3, Array, "m"), profile: profile.Profile{Mass: 1, History: profile.UnitMass}}
	if err := eachField(withShort(), d.field); err != nil || d.short == nil {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := d.complete(); err != nil || d.short != nil {
		t.Errorf("%+v, %v", d.short, err)
	}
}

// Fields of a second vector that is not of the document's version are not looked at: they may be another
// program's.
func TestForeignFieldsOfASecondVector(t *testing.T) {
	c := newCodec(3, Array, "m")
	for _, change := range []bson.E{
		{Key: "embedding_short", Value: nil},
		{Key: "embedding_short", Value: "text"},
		{Key: "embedding_short", Value: bson.A{math.NaN(), 0.0, 0.0}},
		{Key: "mass_short", Value: math.NaN()},
		{Key: "short_half_life", Value: "1m"},
		{Key: "short_half_life", Value: nil},
	} {
		for _, version := range []any{gone, nil, int32(11), "12", 12.5, math.NaN()} {
			if p, err := c.profile(withShort(change, bson.E{Key: "short_version", Value: version})); err != nil || p.Short.Vector != nil || p.Short.HalfLife != 0 {
				t.Errorf("%v, of the version %v: %+v, %v", change, version, p, err)
			}
		}
		if p, err := c.profile(withShort(change, bson.E{Key: "erased_at", Value: bson.DateTime(5)})); err != nil || !p.Erased() {
			t.Errorf("%v, erased: %+v, %v", change, p, err)
		}
	}
}

// A profile without a second vector is stored as it was before there were any, and one that
// loses it keeps no field of it.
func TestDocumentWithoutASecondVector(t *testing.T) {
	store := openReady(t, settings(uri(t), 4))
	p := sample(store.config.Dimensions)
	p.Version, p.Short = 1, profile.Short{Vector: p.Vector, Mass: 2, HalfLife: time.Minute}
	next := *p
	next.Version, next.Short, next.DropShort = 2, profile.Short{}, true
	for i, write := range []*profile.Profile{p, &next} {
		must.OK(t, store.Swap(t.Context(), []*profile.Profile{write})[0])
		doc, err := store.users.FindOne(t.Context(), bson.D{{Key: fieldUser, Value: p.UserID}}).Raw()
		must.OK(t, err)
		for _, field := range shortFields {
			if _, err := doc.LookupErr(field); (err == nil) != (i == 0) {
				t.Errorf("write %d: %s: %v", i+1, field, err)
			}
		}
	}
	must.OK(t, store.Forget(t.Context(), p.UserID, engine.Millis(1)))
}

func TestCheckNamesTheOtherHalfLife(t *testing.T) {
	store := openReady(t, settings(uri(t), 4))
	p := sample(store.config.Dimensions)
	p.Version, p.Short = 1, profile.Short{Vector: p.Vector, Mass: 2, HalfLife: time.Minute}
	must.OK(t, store.Swap(t.Context(), []*profile.Profile{p})[0])
	err := store.config.match(p)
	if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "ShortHalfLife is 0s, the profile has 1m0s") || !strings.Contains(err.Error(), "ShortHalfLife=1m0s") {
		t.Errorf("%v", err)
	}
	c := store.config
	c.ShortHalfLife = time.Minute
	if err := c.match(p); err != nil {
		t.Error(err)
	}
	p.Short = profile.Short{} // the next event gives it one
	if err := c.match(p); err != nil {
		t.Error(err)
	}
}
