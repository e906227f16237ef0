package mongodb

import (
	"context"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine/profile"
)

// Of a listing: how many products a round trip should have at least and at most.
const (
	fewTimes  = 5_000
	manyTimes = 40_000
)

// ProductTimes yields the id of each product and when it was written last, in ranges of ids
// with both ends, as [inOrder] does. Documents whose id is no int32 are left out.
func (s *Store) ProductTimes(ctx context.Context) iter.Seq2[profile.ProductTime, error] {
	return func(yield func(profile.ProductTime, error) bool) {
		from, to, err := s.productRange(ctx)
		if err != nil {
			yield(profile.ProductTime{}, err)
			return
		}
		width := int64(manyTimes)
		for after := from - 1; after < to; {
			end := min(after+width, to)
			page, err := s.timesIn(ctx, after, end)
			if err != nil {
				yield(profile.ProductTime{}, err)
				return
			}
			for _, t := range page {
				if !yield(t, nil) {
					return
				}
			}
			after = end
			switch {
			case len(page) < fewTimes:
				width = min(4*width, math.MaxInt32)
			case len(page) > manyTimes:
				width /= 2
			}
		}
	}
}

func (s *Store) timesIn(ctx context.Context, after, end int64) (page []profile.ProductTime, err error) {
	filter := bson.D{{Key: fieldProduct, Value: bson.D{{Key: "$gt", Value: after}, {Key: "$lte", Value: end}}}}
	how := options.Find().SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: fieldProduct, Value: 1}, {Key: fieldWrittenAt, Value: 1}})
	err = s.find(ctx, s.products, filter, how, func(doc bson.Raw) error {
		if t, ok := productTime(doc); ok {
			page = append(page, t)
		}
		return nil
	})
	return page, err
}

// productTime reads a document. A time that cannot be read is none.
func productTime(doc bson.Raw) (t profile.ProductTime, ok bool) {
	_ = eachField(doc, func(key []byte, v bsoncore.Value) error {
		switch string(key) {
		case fieldProduct:
			ok = readInt32(v, &t.ID) == nil
		case fieldWrittenAt:
			_ = readDate(v, &t.WrittenAt)
		}
		return nil
	})
	return t, ok
}

// productRange returns the lowest and the highest id, or an empty range. An id that is no int32
// does not tell where the others end: it stands for the lowest or the highest that there can be.
func (s *Store) productRange(ctx context.Context) (from, to int64, err error) {
	from, to = 1, 0
	for _, end := range []struct {
		order  int
		into   *int64
		utmost int64
	}{{1, &from, math.MinInt32}, {-1, &to, math.MaxInt32}} {
		filter := bson.D{{Key: fieldProduct, Value: bson.D{{Key: "$gte", Value: math.MinInt32}, {Key: "$lte", Value: math.MaxInt32}}}}
		how := oneReply(1).SetLimit(1).SetSort(bson.D{{Key: fieldProduct, Value: end.order}}).
			SetProjection(bson.D{{Key: "_id", Value: 0}, {Key: fieldProduct, Value: 1}})
		err := s.find(ctx, s.products, filter, how, func(doc bson.Raw) error {
			*end.into = end.utmost
			if t, ok := productTime(doc); ok {
				*end.into = int64(t.ID)
			}
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return from, to, nil
}
