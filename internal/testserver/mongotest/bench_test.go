package mongotest

import (
	"path/filepath"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/testserver/must"
)

const (
	benchUsers      = 2000
	benchDimensions = 1536
	benchBatch      = 100
)

func benchCollection(b *testing.B, o ...Option) *mongo.Collection {
	s := Start(b, o...)
	c := users(b, connect(b, s.URI()))
	docs := make([]any, benchUsers)
	for i := range docs {
		docs[i] = bson.D{{Key: "user_id", Value: int32(i)}, {Key: "embedding", Value: embedding()}, {Key: "version", Value: int32(1)}}
	}
	insert(b, c, docs...)
	return c
}

func embedding() bson.A {
	v := make(bson.A, benchDimensions)
	for i := range v {
		v[i] = float64(i) / benchDimensions
	}
	return v
}

// BenchmarkFind reads 100 users of 12 KiB by their ids, as raw bytes.
func BenchmarkFind(b *testing.B) {
	c := benchCollection(b)
	ids := make(bson.A, benchBatch)
	n := 0
	for b.Loop() {
		for i := range ids {
			ids[i] = int32((n*benchBatch + i) % benchUsers)
		}
		n++
		cursor, err := c.Find(b.Context(), one("user_id", one("$in", ids)))
		must.OK(b, err)
		found := 0
		for cursor.Next(b.Context()) {
			found++
		}
		if found != benchBatch || cursor.Err() != nil {
			b.Fatal(found, cursor.Err())
		}
	}
	b.ReportMetric(float64(b.N*benchBatch)/b.Elapsed().Seconds(), "users/s")
}

// BenchmarkBulkUpdate replaces the vectors of 100 users in one command; the
// documents are encoded beforehand.
func BenchmarkBulkUpdate(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkBulk(b) })
	b.Run("journal", func(b *testing.B) { benchmarkBulk(b, WithData(filepath.Join(b.TempDir(), "journal"))) })
}

func benchmarkBulk(b *testing.B, o ...Option) {
	c := benchCollection(b, o...)
	set, err := bson.Marshal(bson.D{
		{Key: "$set", Value: one("embedding", embedding())}, {Key: "$inc", Value: one("version", int32(1))},
	})
	must.OK(b, err)
	models := make([]mongo.WriteModel, benchBatch)
	n := 0
	for b.Loop() {
		round := int32(n / (benchUsers / benchBatch))
		for i := range models {
			user := int32((n*benchBatch + i) % benchUsers)
			models[i] = mongo.NewUpdateOneModel().SetUpdate(bson.Raw(set)).
				SetFilter(bson.D{{Key: "user_id", Value: user}, {Key: "version", Value: round + 1}})
		}
		n++
		res, err := c.BulkWrite(b.Context(), models, options.BulkWrite().SetOrdered(false))
		if err != nil || res.ModifiedCount != benchBatch {
			b.Fatal(res, err)
		}
	}
	b.ReportMetric(float64(b.N*benchBatch)/b.Elapsed().Seconds(), "users/s")
}

// BenchmarkUpdateInStore is one compare-and-swap without the wire.
func BenchmarkUpdateInStore(b *testing.B) {
	st := newStore()
	c := st.ensure("db.c")
	must.OK(b, c.addIndex(newIndex("user_id_1", "user_id", value{}, true)))
	raw, err := bson.Marshal(bson.D{{Key: "_id", Value: 1}, {Key: "user_id", Value: int32(1)}, {Key: "embedding", Value: embedding()}, {Key: "version", Value: int32(1)}})
	must.OK(b, err)
	w := &writer{store: st}
	must.OK(b, c.write(w, &record{}, raw, nil))
	u, err := bson.Marshal(one("u", bson.D{{Key: "$set", Value: one("embedding", embedding())}, {Key: "$inc", Value: one("version", int32(1))}}))
	must.OK(b, err)
	q, err := bson.Marshal(bson.D{{Key: "user_id", Value: int32(1)}, {Key: "version", Value: one("$gt", 0)}})
	must.OK(b, err)
	b.ReportAllocs()
	for b.Loop() {
		f, err := parseFilter(q)
		must.OK(b, err)
		change, err := parseUpdate(lookup(u, "u"))
		must.OK(b, err)
		for _, r := range c.matching(f, 1) {
			doc, err := change.apply(r.raw)
			must.OK(b, err)
			must.OK(b, c.write(w, r, doc, nil))
		}
	}
}
