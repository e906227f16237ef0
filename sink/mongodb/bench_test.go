package mongodb

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
)

// The store and a straightforward use of the driver, 100 profiles of 1536
// components per call, on the same server in this process: its share of the
// time is in both.
const benchUsers = 100

func openBench(b *testing.B, format Format) *Store {
	c := settings(mongotest.Start(b).URI(), 1536)
	c.Format = format
	s := openReady(b, c)
	put(b, s, benchProfiles(1)...)
	return s
}

func benchProfiles(version int32) []*profile.Profile {
	all := make([]*profile.Profile, benchUsers)
	for i := range all {
		p := sample(1536)
		p.UserID, p.Version = int32(i+1), version
		all[i] = p
	}
	return all
}

func BenchmarkSwap(b *testing.B) {
	for _, format := range []Format{Array, Binary} {
		b.Run("store "+string(format), func(b *testing.B) {
			s := openBench(b, format)
			profiles := benchProfiles(1)
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range profiles {
					p.Version++
				}
				put(b, s, profiles...)
			}
		})
	}
	b.Run("struct", func(b *testing.B) {
		s := openBench(b, Array)
		profiles := benchProfiles(1)
		b.ReportAllocs()
		for b.Loop() {
			models := make([]mongo.WriteModel, 0, benchUsers)
			for _, p := range profiles {
				p.Version++
				models = append(models, mongo.NewUpdateOneModel().
					SetFilter(bson.D{{Key: fieldUser, Value: p.UserID}, {Key: fieldVersion, Value: p.Version - 1}}).
					SetUpdate(bson.D{{Key: "$set", Value: documentOf(p)}}))
			}
			result, err := s.users.BulkWrite(context.Background(), models, options.BulkWrite().SetOrdered(false))
			if err != nil || result.MatchedCount != benchUsers {
				b.Fatal(result, err)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	users := make([]int32, benchUsers)
	for i := range users {
		users[i] = int32(i + 1)
	}
	for _, format := range []Format{Array, Binary} {
		b.Run("store "+string(format), func(b *testing.B) {
			s := openBench(b, format)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Load(ctx, users); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("struct", func(b *testing.B) {
		s := openBench(b, Array)
		b.ReportAllocs()
		for b.Loop() {
			cursor, err := s.users.Find(ctx, bson.D{{Key: fieldUser, Value: bson.D{{Key: "$in", Value: users}}}})
			must.OK(b, err)
			var all []document
			if err := cursor.All(ctx, &all); err != nil || len(all) != benchUsers {
				b.Fatal(fmt.Sprint(len(all)), err)
			}
		}
	})
}
