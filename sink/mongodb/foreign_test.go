package mongodb

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// plain is a document as the specification shows it, of a worker that knows
// none of keyfold's fields.
func plain(change ...bson.E) []byte {
	at := time.UnixMilli(1_700_000_000_000)
	doc := bson.D{
		{Key: "_id", Value: bson.NewObjectID()},
		{Key: "user_id", Value: int32(12345)},
		{Key: "embedding", Value: bson.A{0.6, 0.8, 0.0}},
		{Key: "dimension_count", Value: int32(3)},
		{Key: "last_updated", Value: at},
		{Key: "event_count", Value: int32(47)},
		{Key: "last_event_type", Value: "product_purchase"},
		{Key: "created_at", Value: at},
		{Key: "updated_at", Value: at},
		{Key: "version", Value: int32(12)},
	}
	for _, c := range change {
		i := slices.IndexFunc(doc, func(e bson.E) bool { return e.Key == c.Key })
		switch {
		case c.Value == gone:
			doc = slices.Delete(doc, i, i+1)
		case i >= 0:
			doc[i] = c
		default:
			doc = append(doc, c)
		}
	}
	b, err := bson.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return b
}

// gone removes a field in plain.
const gone = "\x00gone"

func TestDocumentOfAnotherWorker(t *testing.T) {
	c := newCodec(3, Array, "m")
	want := profile.Profile{
		UserID: 12345, Version: 12, Vector: []float64{0.6, 0.8, 0}, Mass: 1, Updated: 1_700_000_000_000,
		LastType: profile.ProductPurchase, EventCount: 47, History: profile.UnitMass,
		CreatedAt: 1_700_000_000_000, WrittenAt: 1_700_000_000_000,
	}
	for name, doc := range map[string][]byte{
		"as specified": plain(),
		"other whole numbers": plain(bson.E{Key: "user_id", Value: int64(12345)}, bson.E{Key: "version", Value: 12.0},
			bson.E{Key: "event_count", Value: int64(47)}, bson.E{Key: "dimension_count", Value: 3.0}),
		"other components": plain(bson.E{Key: "embedding", Value: bson.A{0.6, 0.8, int32(0)}}),
		"strange keys":     plain(bson.E{Key: "embedding", Value: array("a", 0.6, "", 0.8, "0", 0.0)}),
		"unknown fields":   plain(bson.E{Key: "segment", Value: bson.A{"a", bson.D{{Key: "b", Value: 1}}}}),
		"nulls": plain(bson.E{Key: "applied", Value: nil}, bson.E{Key: "mass", Value: nil}, bson.E{Key: "erased_at", Value: nil},
			bson.E{Key: "history", Value: nil}, bson.E{Key: "embedding_model", Value: nil}),
	} {
		got, err := c.profile(doc)
		if err != nil || !equal(got, &want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	bare, err := c.profile(plain(bson.E{Key: "event_count", Value: gone}, bson.E{Key: "last_event_type", Value: gone},
		bson.E{Key: "created_at", Value: gone}, bson.E{Key: "updated_at", Value: gone}, bson.E{Key: "dimension_count", Value: gone}))
	want.EventCount, want.LastType, want.CreatedAt, want.WrittenAt = 0, 0, 0, 0
	if err != nil || !equal(bare, &want) {
		t.Errorf("with required fields only: got %+v, %v", bare, err)
	}
	if doc := c.appendUpdate(nil, bare, writeID); strings.Contains(string(doc), fieldLastType) {
		t.Error("an unknown event type is written, and the validator would refuse it")
	}
}

// array returns a BSON array with these keys, which bson.A would not give it.
func array(pairs ...any) bson.RawValue {
	var d bson.D
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	b, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return bson.RawValue{Type: bson.TypeArray, Value: b}
}

// Promise(mongodb/nan)
func TestDocumentsThatCannotBeUsed(t *testing.T) {
	c := newCodec(3, Array, "m")
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	for _, test := range []struct {
		name  string
		doc   []byte
		names string // what the error must name
	}{
		{"no user", plain(e("user_id", gone)), "user_id"},
		{"user above 32 bits", plain(e("user_id", int64(1)<<31)), "user_id"},
		{"user with a fraction", plain(e("user_id", 1.5)), "user_id"},
		{"no version", plain(e("version", gone)), "version"},
		{"version 0", plain(e("version", int32(0))), "version"},
		{"version as text", plain(e("version", "12")), "version"},
		{"no embedding", plain(e("embedding", gone)), "embedding"},
		{"embedding of text", plain(e("embedding", bson.A{"0.6", "0.8", "0"})), "embedding"},
		{"embedding as a document", plain(e("embedding", bson.D{{Key: "0", Value: 0.6}})), "embedding"},
		{"NaN", plain(e("embedding", bson.A{0.6, math.NaN(), 0.0})), "component 1"},
		{"Inf", plain(e("embedding", bson.A{0.6, 0.8, math.Inf(1)})), "component 2"},
		{"null component", plain(e("embedding", bson.A{0.6, nil, 0.0})), "component 1"},
		{"inexact component", plain(e("embedding", bson.A{0.6, int64(1)<<53 + 1, 0.0})), "component 1"},
		{"other count", plain(e("dimension_count", int32(1536))), "dimension_count"},
		{"no last_updated", plain(e("last_updated", gone)), "last_updated"},
		{"last_updated as text", plain(e("last_updated", "2026-02-10T14:30:00Z")), "last_updated"},
		{"negative mass", plain(e("mass", -1.0)), "mass"},
		{"NaN mass", plain(e("mass", math.NaN())), "mass"},
		{"mass as text", plain(e("mass", "1")), "mass"},
		{"history mass without mass", plain(e("history", "mass")), "mass"},
		{"applied of another subtype", plain(e("applied", bson.Binary{Subtype: 4, Data: make([]byte, 22)})), "applied"},
		{"applied of a wrong length", plain(e("applied", bson.Binary{Data: make([]byte, 23)})), "applied"},
		{"event type as number", plain(e("last_event_type", int32(1))), "last_event_type"},
		{"tombstone without version", plain(e("erased_at", time.Now()), e("version", gone)), "version"},
	} {
		p, err := c.profile(test.doc)
		if p != nil || engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != reasonCorrupt {
			t.Errorf("%s: got %+v, %v, want a configuration fault", test.name, p, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, test.names) || test.name != "no user" && !strings.Contains(text, "user 12345") &&
			!strings.HasPrefix(test.name, "user ") {
			t.Errorf("%s: the error %q does not name %s and the user", test.name, text, test.names)
		}
	}
}

// Promise(event/erased-user, mongodb/no-upsert)
func TestTombstone(t *testing.T) {
	got, err := newCodec(3, Array, "m").profile(plain(bson.E{Key: "erased_at", Value: time.UnixMilli(42)}))
	if err != nil || !got.Erased() || got.Vector != nil || got.Version != 12 || got.UserID != 12345 || got.ErasedAt != 42 || got.Mass != 0 {
		t.Errorf("got %+v, %v, want a tombstone and nothing of the profile", got, err)
	}
}
