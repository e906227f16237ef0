package mongodb

import (
	"context"
	"iter"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"keyfold/engine"
)

// pageDocuments is how many documents an iteration reads at a time. No cursor is
// open between pages, however slow the loop's body: the server would close it.
const pageDocuments = 128

// maxRangeGrowth is how much wider a range is than the one before that was not full.
const maxRangeGrowth = 4

// span is a range of keys: above after, and at most after+width. The last one has no end:
// a key that is no int32 is a fault to be told.
type span struct{ after, width int64 }

func (s span) upTo() int64 {
	if end := s.after + s.width; end < math.MaxInt32 {
		return end
	}
	return math.MaxInt64
}

// next is the range behind one: behind the last key of a full page, as wide as its keys lay
// apart, and otherwise behind its end and wider. What is below 1 is one range.
func (s span) next(full bool, last int64) span {
	switch end := s.after + s.width; {
	case full:
		return span{last, max(pageDocuments, last-s.after)}
	case end == 0:
		return span{0, pageDocuments}
	default:
		return span{end, min(maxRangeGrowth*s.width, math.MaxInt32)}
	}
}

// inOrder yields every document of a collection whose key is above after, in the order of
// keys, until the first error; read returns a document's key. Each page is a range with both
// ends, as wide as the keys of the last one lay apart: a server that sorts what a filter finds
// instead of walking the index (documentdb) would sort the rest of the collection for each
// page of an open range.
func inOrder[T any](
	ctx context.Context, s *Store, from *mongo.Collection, key string, after int64, read func(bson.Raw) (T, int64, error),
) iter.Seq2[T, error] {
	slow := func(err error) bool { return mongo.IsTimeout(err) && ctx.Err() == nil }
	return bySpans(after, slow, func(r span) (page []T, last int64, err error) {
		filter := bson.D{{Key: key, Value: bson.D{{Key: "$gt", Value: r.after}, {Key: "$lte", Value: r.upTo()}}}}
		how := oneReply(pageDocuments).SetLimit(pageDocuments).SetSort(bson.D{{Key: key, Value: 1}})
		err = s.find(ctx, from, filter, how, func(doc bson.Raw) error {
			row, at, err := read(doc)
			page, last = append(page, row), at
			return err
		})
		return page, last, err
	})
}

// bySpans yields what read returns of one range after another, up to the last int32. A range
// for which it was too slow is read once more, as narrow as they get.
func bySpans[T any](after int64, slow func(error) bool, read func(span) (page []T, last int64, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := span{after, max(pageDocuments, -after)}
		engine.Pages(pageDocuments, func(int64) (rows []T, last int64, err error) {
			for len(rows) < pageDocuments && r.after < math.MaxInt32 {
				page, last, err := read(r)
				if err != nil && r.width > pageDocuments && slow(err) {
					r.width = pageDocuments
					page, last, err = read(r)
				}
				if err != nil {
					return nil, 0, err
				}
				rows, r = append(rows, page...), r.next(len(page) == pageDocuments, last)
			}
			return rows, 0, nil // r tells where the next page begins
		})(yield)
	}
}
