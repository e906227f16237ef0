package mongodb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sinktest"
)

func binaryFormat(c *Config) { c.Format = Binary }

// Promise(mongodb/format): A worker reads vectors of both forms, whichever it writes, and each write
// has the form that EMBEDDING_FORMAT names.
func TestConformanceOfBinaryVectors(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Store {
		return conformant(t, start(t, func(c *Config) { c.Dimensions, c.Format = 8, Binary }))
	})
}

// What another program reads: the bytes of the doubles, little-endian.
func TestBinaryVectorIsItsDoubles(t *testing.T) {
	p := withSecond(sample(1536))
	doc := bson.Raw(newCodec(1536, Binary, "m").appendInsert(nil, p, writeID))
	for field, v := range map[string][]float64{"embedding": p.Vector, "embedding_short": p.Short.Vector} {
		var want bytes.Buffer
		must.OK(t, binary.Write(&want, binary.LittleEndian, v))
		if subtype, got := doc.Lookup(field).Binary(); subtype != 0 || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s: %d bytes of subtype %d", field, len(got), subtype)
		}
	}
	array := newCodec(1536, Array, "m").appendInsert(nil, p, writeID)
	if 3*len(doc) > 2*len(array) {
		t.Errorf("a document has %d bytes, with arrays %d", len(doc), len(array))
	}
}

func withSecond(p *profile.Profile) *profile.Profile {
	p.Short.Vector, p.Short.Mass, p.Short.HalfLife = p.Vector, 0.5, 60e9
	return p
}

func TestDamagedBinaryVector(t *testing.T) {
	c := newCodec(3, Array, "m")
	ofNaN := binary.LittleEndian.AppendUint64(make([]byte, 16), math.Float64bits(math.NaN()))
	for says, v := range map[string]any{
		"expected 8 for each":     []byte{1, 2, 3},
		"has 0 bytes":             []byte{},
		"subtype 0":               bson.Binary{Subtype: 9, Data: make([]byte, 24)},
		"component 2 that is NaN": ofNaN,
		"more than":               make([]byte, 8*(profile.MaxDimensions+1)),
		"dimension_count":         make([]byte, 16),
		"expected an array":       "text",
	} {
		if p, err := c.profile(plain(bson.E{Key: "embedding", Value: v})); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %+v, %v", says, p, err)
		}
	}
}

// Workers of both settings fold into one collection.
func TestFormatsMeet(t *testing.T) {
	parallel(t)
	arrays := start(t)
	c := arrays.config
	c.Format = Binary
	binaries := open(t, c)
	must.OK(t, binaries.Check(ctx))
	put(t, arrays, newProfile(1, 1), newProfile(2, 1))
	put(t, binaries, newProfile(1, 2), newProfile(3, 1))
	put(t, arrays, newProfile(3, 2))
	for user, want := range map[int32]struct {
		version int32
		format  Format
	}{1: {2, Binary}, 2: {1, Array}, 3: {2, Array}} {
		if got := formatOf(t, arrays, user); got != want.format {
			t.Errorf("user %d has %s, want %s", user, got, want.format)
		}
		for _, s := range []*Store{arrays, binaries} {
			if got := stored(t, s, user); !equal(got, newProfile(user, want.version)) {
				t.Errorf("user %d was read as %+v", user, got)
			}
		}
	}
}

// formatOf is the form of a user's stored vector.
func formatOf(t *testing.T, s *Store, user int32) Format {
	t.Helper()
	doc, err := s.users.FindOne(ctx, bson.D{{Key: fieldUser, Value: user}}).Raw()
	must.OK(t, err)
	switch v := bsoncore.Type(doc.Lookup(fieldEmbedding).Type); v {
	case Array.bsonType():
		return Array
	case Binary.bsonType():
		return Binary
	default:
		t.Fatalf("user %d has a %v", user, v)
		return ""
	}
}

// The validator of an earlier keyfold would refuse each write, and so have all events given
// up: the worker does not start.
func TestCheckOfAValidatorThatKnowsArraysOnly(t *testing.T) {
	parallel(t)
	s := start(t)
	earlier := bson.M{"bsonType": "array", "minItems": 4, "maxItems": 4}
	err := s.database.RunCommand(ctx, bson.D{{Key: "collMod", Value: collectionUsers}, {Key: "validator", Value: bson.M{
		"$jsonSchema": bson.M{"anyOf": bson.A{bson.M{"properties": bson.M{fieldEmbedding: earlier}}}},
	}}}).Err()
	must.OK(t, err)
	must.OK(t, s.Check(ctx))
	c := s.config
	c.Format = Binary
	worker := open(t, c)
	err = worker.Check(ctx)
	if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), string(setupCommand)) {
		t.Fatalf("want a configuration error that names the cure: %v", err)
	}
	if _, err := worker.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	must.OK(t, worker.Check(ctx))
	put(t, worker, newProfile(1, 1))
}

// A collection that another program made has a validator of its own, or none.
func TestCheckOfAnotherProgramsValidator(t *testing.T) {
	parallel(t)
	s := start(t, binaryFormat)
	for _, validator := range []bson.M{{}, {"user_id": bson.M{"$exists": true}}, {"$jsonSchema": bson.M{"required": bson.A{"user_id"}}}} {
		must.OK(t, s.database.RunCommand(ctx, bson.D{{Key: "collMod", Value: collectionUsers}, {Key: "validator", Value: validator}}).Err())
		must.OK(t, s.Check(ctx))
	}
}

func TestConvert(t *testing.T) {
	parallel(t)
	arrays := start(t)
	c := arrays.config
	c.Format = Binary
	binaries := open(t, c)
	const users = 2*pageDocuments + 3
	for user := range int32(users) {
		put(t, arrays, withSecond(newProfile(user+1, 1)))
	}
	put(t, binaries, newProfile(users+1, 1))
	must.OK(t, arrays.Forget(ctx, users+2, 1000))
	damaged := bson.D{{Key: fieldUser, Value: int32(users + 3)}, {Key: fieldVersion, Value: int32(1)}, {Key: fieldEmbedding, Value: bson.A{1.0}}}
	if _, err := arrays.users.InsertOne(ctx, damaged, options.InsertOne().SetBypassDocumentValidation(true)); err != nil {
		t.Fatal(err)
	}
	want := int64(users) // the last one has the form already
	for range 2 {        // there and back
		for _, s := range []*Store{binaries, arrays} {
			if n, err := s.Convert(ctx); err != nil || n != want {
				t.Fatalf("%d profiles converted, want %d: %v", n, want, err)
			}
			want = users + 1
			if n, err := s.Convert(ctx); n != 0 || err != nil {
				t.Errorf("once more: %d profiles, %v", n, err)
			}
			for user := range int32(users) {
				if got := stored(t, arrays, user+1); !equal(got, withSecond(newProfile(user+1, 1))) || formatOf(t, s, user+1) != s.config.Format {
					t.Fatalf("user %d became %+v", user+1, got)
				}
			}
		}
	}
	if p := stored(t, arrays, users+2); p == nil || !p.Erased() {
		t.Errorf("the erased user became %+v", p)
	}
}

// A document that is nobody's as the last one of a page does not begin the pages anew.
func TestConvertMeetsADocumentOfNobody(t *testing.T) {
	parallel(t)
	s := start(t)
	for user := range int32(pageDocuments - 1) {
		put(t, s, newProfile(user+1, 1))
	}
	nobody := bson.D{{Key: fieldUser, Value: pageDocuments - 0.5}, {Key: fieldVersion, Value: int32(1)}}
	if _, err := s.users.InsertOne(ctx, nobody, options.InsertOne().SetBypassDocumentValidation(true)); err != nil {
		t.Fatal(err)
	}
	c := s.config
	c.Format = Binary
	if _, err := open(t, c).Convert(ctx); err == nil || !strings.Contains(err.Error(), "without a readable user_id") {
		t.Errorf("%v", err)
	}
}

// A worker that writes between the reading and the conversion has the last word.
func TestConvertBesideAWorker(t *testing.T) {
	s := start(t)
	put(t, s, newProfile(1, 1))
	doc, err := s.users.FindOne(ctx, bson.D{{Key: fieldUser, Value: 1}}).Raw()
	must.OK(t, err)
	put(t, s, newProfile(1, 2))
	model := newCodec(4, Binary, "m").conversion([]byte(doc))
	if n, err := s.convertAll(ctx, []mongo.WriteModel{model}); n != 0 || err != nil {
		t.Errorf("%d converted, %v", n, err)
	}
	if got := stored(t, s, 1); !equal(got, newProfile(1, 2)) {
		t.Errorf("it became %+v", got)
	}
	stop, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Convert(stop); !errors.Is(err, stop.Err()) {
		t.Errorf("a context that ended: %v", err)
	}
}
