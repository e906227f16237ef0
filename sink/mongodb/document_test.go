package mongodb

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// document is what the driver's own codec writes and reads: the reference.
type document struct {
	ID         bson.ObjectID `bson:"_id,omitempty"`
	User       int32         `bson:"user_id"`
	Version    int32         `bson:"version"`
	Updated    time.Time     `bson:"last_updated"`
	EventCount int64         `bson:"event_count,minsize"`
	LastType   string        `bson:"last_event_type,omitempty"`
	LastID     string        `bson:"last_message_id"`
	CreatedAt  *time.Time    `bson:"created_at"`
	WrittenAt  *time.Time    `bson:"updated_at"`
	Mass       float64       `bson:"mass"`
	History    string        `bson:"history"`
	Model      string        `bson:"embedding_model"`
	Applied    []byte        `bson:"applied"`
	Floor      *time.Time    `bson:"applied_floor"`
	WriteID    bson.ObjectID `bson:"write_id"`

	ShortMass     *float64 `bson:"mass_short,omitempty"`
	ShortHalfLife *int32   `bson:"short_half_life,omitempty"`
	ShortVersion  *int32   `bson:"short_version,omitempty"`

	Dimensions int32     `bson:"dimension_count"`
	Embedding  []float64 `bson:"embedding"`

	Short []float64 `bson:"embedding_short,omitempty"`
}

var writeID = bson.NewObjectID()

func documentOf(p *profile.Profile) document {
	optional := func(m engine.Millis) *time.Time {
		if m == 0 {
			return nil
		}
		at := m.Time()
		return &at
	}
	d := document{
		User: p.UserID, Version: p.Version, Updated: p.Updated.Time(), EventCount: p.EventCount,
		LastType: p.LastType.String(), LastID: p.LastID, CreatedAt: optional(p.CreatedAt), WrittenAt: optional(p.WrittenAt),
		Mass: p.Mass, History: string(p.History), Model: p.Model,
		Applied: p.Applied.AppendStored([]byte{}), Floor: optional(p.Applied.Floor),
		Dimensions: int32(len(p.Vector)), Embedding: p.Vector, Short: p.Short.Vector,
	}
	if p.Short.Vector != nil {
		seconds := int32(p.Short.HalfLife / time.Second)
		d.ShortMass, d.ShortHalfLife, d.ShortVersion = &p.Short.Mass, &seconds, &p.Version
	}
	return d
}

func drawProfile(t *rapid.T, dimensions int) *profile.Profile {
	millis := rapid.Custom(func(t *rapid.T) engine.Millis {
		return engine.Millis(rapid.Int64Range(-1e13, 1e14).Draw(t, "ms"))
	})
	p := &profile.Profile{
		UserID:     rapid.Int32().Draw(t, "user"),
		Version:    rapid.Int32Range(1, math.MaxInt32).Draw(t, "version"),
		Vector:     make([]float64, dimensions),
		Mass:       rapid.Float64Range(0, math.MaxFloat64).Draw(t, "mass"),
		Updated:    millis.Draw(t, "updated"),
		LastType:   profile.EventType(rapid.IntRange(0, len(profile.EventTypes())).Draw(t, "type")),
		LastID:     rapid.String().Draw(t, "id"),
		EventCount: rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(math.MaxInt32-1, math.MaxInt32+1)).Draw(t, "events"),
		History:    rapid.SampledFrom([]profile.History{profile.Mass, profile.UnitMass}).Draw(t, "history"),
		Model:      rapid.String().Draw(t, "model"),
		CreatedAt:  millis.Draw(t, "created"),
		WrittenAt:  millis.Draw(t, "written"),
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for i := range p.Vector {
		bits := r.Uint64()
		if !finite(bits) {
			bits = 0
		}
		p.Vector[i] = math.Float64frombits(bits)
	}
	if rapid.Bool().Draw(t, "second vector") {
		p.Short = profile.Short{
			Vector: slices.Clone(p.Vector), Mass: rapid.Float64Range(0, math.MaxFloat64).Draw(t, "mass_short"),
			HalfLife: time.Duration(rapid.Int32Range(1, math.MaxInt32).Draw(t, "half-life")) * time.Second,
		}
		slices.Reverse(p.Short.Vector)
	}
	for i := range rapid.IntRange(0, 100).Draw(t, "ids") {
		p.Applied = p.Applied.With(uint64(i), []profile.AppliedID{profile.DigestOf(string(rune(i))).ID()}, engine.Millis(1e12+i), profile.DefaultIDLimits())
	}
	p.Applied.Floor = millis.Draw(t, "floor")
	return p
}

// equal compares two profiles to the last bit.
func equal(a, b *profile.Profile) bool {
	sameBits := func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }
	x, y := documentOf(a), documentOf(b)
	x.Embedding, y.Embedding, x.Short, y.Short = nil, nil, nil, nil
	rawX, _ := bson.Marshal(x)
	rawY, _ := bson.Marshal(y)
	return slices.Equal(rawX, rawY) && slices.EqualFunc(a.Vector, b.Vector, sameBits) && slices.EqualFunc(a.Short.Vector, b.Short.Vector, sameBits) && a.ErasedAt == b.ErasedAt
}

// Our documents are those of the struct codec, byte for byte but for the id.
//
// Promise(mongodb/bson): Long vectors are encoded and decoded by hand into the same bytes as the
// driver's.
func TestEncodingEqualsTheStructCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dimensions := rapid.SampledFrom([]int{1, 9, 10, 11, 99, 100, 101, 999, 1001, 1536, 10001}).Draw(t, "dimensions")
		c := newCodec(dimensions, Array, "m")
		p := drawProfile(t, dimensions)
		got := c.appendInsert(nil, p, writeID)
		if size := c.size(p); len(got) > size {
			t.Fatalf("a document of %d bytes was expected to have at most %d", len(got), size)
		}
		want := documentOf(p)
		want.WriteID = writeID
		want.ID = bson.Raw(got).Lookup("_id").ObjectID()
		expected, err := bson.Marshal(want)
		must.OK(t, err)
		if !slices.Equal(got, expected) {
			t.Fatalf("got %v, want %v", bson.Raw(got), bson.Raw(expected))
		}
		update := c.appendUpdate(nil, p, writeID)
		var set struct {
			Set bson.Raw `bson:"$set"`
		}
		must.OK(t, bson.Unmarshal(update, &set))
		// The update is the insert without _id.
		const before = 4 + (1 + 4 + 12)
		if !slices.Equal(set.Set[4:], got[before:]) {
			t.Fatalf("the update sets %v, want %v", set.Set, bson.Raw(got))
		}
	})
}

// Promise(mongodb/bson)
func TestDecodingInvertsEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dimensions := rapid.SampledFrom([]int{1, 10, 11, 100, 101, 1001, 10001}).Draw(t, "dimensions")
		format := rapid.SampledFrom([]Format{Array, Binary}).Draw(t, "format")
		c := newCodec(dimensions, format, "m")
		p := drawProfile(t, dimensions)
		doc := c.appendInsert(nil, p, writeID)
		if size := c.size(p); len(doc) > size {
			t.Fatalf("a document of %d bytes was expected to have at most %d", len(doc), size)
		}
		got, err := c.profile(doc)
		must.OK(t, err)
		if !equal(got, p) {
			t.Fatalf("got %+v, want %+v", got, p)
		}
		// A worker with other settings reads the same, the long way.
		other, err := newCodec(dimensions+1, Array, "m").profile(doc)
		if err != nil || !equal(other, p) {
			t.Fatalf("with another template: %+v, %v", other, err)
		}
	})
}

func TestDecodingOwnsItsMemory(t *testing.T) {
	for _, format := range []Format{Array, Binary} {
		c := newCodec(20, format, "m")
		p := sample(20)
		doc := c.appendInsert(nil, p, writeID)
		got, err := c.profile(doc)
		must.OK(t, err)
		clear(doc)
		if !equal(got, p) {
			t.Errorf("%s: the profile changed with the buffer it was read from", format)
		}
	}
}

// Whatever bytes come, the decoder returns.
//
// Promise(mongodb/bson)
func TestDecodingSurvivesDamage(t *testing.T) {
	c := newCodec(12, Array, "m")
	docs := [][]byte{c.appendInsert(nil, sample(12), writeID), newCodec(12, Binary, "m").appendInsert(nil, sample(12), writeID)}
	rapid.Check(t, func(t *rapid.T) {
		b := slices.Clone(rapid.SampledFrom(docs).Draw(t, "doc"))
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		b = b[:rapid.IntRange(0, len(b)).Draw(t, "length")]
		p, err := c.profile(b)
		if (p == nil) == (err == nil) {
			t.Fatalf("profile %v with error %v", p, err)
		}
		_, _ = c.product(b)
		_, _ = readWriteMark(b)
	})
}

// sample returns a profile with every field set.
func sample(dimensions int) *profile.Profile {
	p := &profile.Profile{
		UserID: 7, Version: 3, Vector: make([]float64, dimensions), Mass: 2.5, Updated: 1_700_000_000_123,
		LastType: profile.ProductClick, LastID: "c0ffee", EventCount: 12, History: profile.Mass, Model: "text-embedding-3-small",
		CreatedAt: 1_690_000_000_000, WrittenAt: 1_700_000_000_456,
	}
	for i := range p.Vector {
		p.Vector[i] = math.Sin(float64(i + 1))
	}
	for i := range 70 {
		at := 1_700_000_000_000 + engine.Millis(i/69*456)
		p.Applied = p.Applied.With(uint64(i), []profile.AppliedID{profile.DigestOf(string(rune('a' + i))).ID()}, at, profile.DefaultIDLimits())
	}
	return p
}
