package mongodb

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/internal/testserver/must"
)

func BenchmarkMarshal(b *testing.B) {
	p := sample(1536)
	b.Run("struct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bson.Marshal(documentOf(p)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("binary", func(b *testing.B) {
		c := newCodec(1536, Binary, p.Model)
		buffer := make([]byte, 0, c.size(p))
		b.ReportAllocs()
		for b.Loop() {
			buffer = c.appendInsert(buffer[:0], p, writeID)
		}
	})
	b.Run("template", func(b *testing.B) {
		c := newCodec(1536, Array, p.Model)
		buffer := make([]byte, 0, c.size(p))
		b.ReportAllocs()
		for b.Loop() {
			buffer = c.appendInsert(buffer[:0], p, writeID)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	p := sample(1536)
	c := newCodec(1536, Array, p.Model)
	doc := c.appendInsert(nil, p, writeID)
	b.Run("struct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var d document
			must.OK(b, bson.Unmarshal(doc, &d))
		}
	})
	b.Run("template", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.profile(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("binary", func(b *testing.B) {
		doc := newCodec(1536, Binary, p.Model).appendInsert(nil, p, writeID)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.profile(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("scan", func(b *testing.B) {
		other := newCodec(1535, Array, p.Model)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := other.profile(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}
