package mongodb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// productChunk is how many products one round trip reads, and writes at most.
const productChunk = 256

const (
	// putAttempts is how often in a row a chunk may fail.
	putAttempts = 6
	// putPause is how long the second attempt waits; each further one waits twice as
	// long.
	putPause = 250 * time.Millisecond
)

// Products returns those of the products that exist, in any order. A product
// whose vector cannot be read is returned without one.
func (s *Store) Products(ctx context.Context, ids []int32) ([]profile.Product, error) {
	if err := ended(ctx, "read products"); err != nil {
		return nil, err
	}
	products := make([]profile.Product, 0, len(ids))
	for chunk := range slices.Chunk(ids, productChunk) {
		err := s.find(ctx, s.products, among(fieldProduct, chunk), oneReply(len(chunk)), func(doc bson.Raw) error {
			p, err := s.codec.product(doc)
			products = append(products, p)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(products) < len(ids) && s.guard.last.Load() != nil {
		// A worker skips the events of a product that does not exist for good, but not
		// those of a store that was emptied since [Store.Check]. Commands that look up
		// products in a store without profiles do not check it.
		if err := s.checkSetUp(ctx); err != nil {
			return nil, err
		}
	}
	return products, nil
}

// AllProducts yields every product in the order of ids, until the first error.
// Each page is as of its own reading.
func (s *Store) AllProducts(ctx context.Context) iter.Seq2[profile.Product, error] {
	return inOrder(ctx, s, s.products, fieldProduct, math.MinInt32-1, func(doc bson.Raw) (profile.Product, int64, error) {
		p, err := s.codec.product(doc)
		return p, int64(p.ID), err
	})
}

// ProductStreams returns [Store.AllProducts] as the one stream of the catalogue: the server
// and its network are what takes the time.
func (s *Store) ProductStreams(ctx context.Context) []iter.Seq2[profile.Product, error] {
	return []iter.Seq2[profile.Product, error]{s.AllProducts(ctx)}
}

// PutProducts inserts products or replaces those of the same id; now becomes
// their updated_at, and created_at of the new ones. It writes in chunks: after
// an error some may be written, and writing all again does no harm. So a chunk
// that fails for now is written again, after a timeout in smaller pieces: a store
// may be too slow for a whole one. Fields that keyfold does not know stay.
func (s *Store) PutProducts(ctx context.Context, products []profile.Product, now engine.Millis) error {
	for failed := 0; len(products) > 0; {
		if err := ended(ctx, "write products"); err != nil {
			return err
		}
		size := int(s.putSize.Load()) // kept: the next call's store is as slow
		n := min(size, len(products))
		err := s.putChunk(ctx, products[:n], now)
		if err == nil {
			products, failed = products[n:], 0
			s.putSize.Store(int32(min(size+1, productChunk)))
			continue
		}
		if mongo.IsTimeout(err) {
			s.putSize.Store(int32(max(n/2, 1)))
			err = fmt.Errorf("%w (timeoutMS in %s sets how long an answer may take, %v now)", err, uriSetting, s.config.Timeout)
		}
		if failed++; engine.KindOf(err) != engine.Transient || failed == putAttempts {
			return err
		}
		select {
		case <-time.After(putPause << (failed - 1)):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

func (s *Store) putChunk(ctx context.Context, products []profile.Product, now engine.Millis) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	models := make([]mongo.WriteModel, len(products))
	for i := range products {
		p := &products[i]
		if err := storable(p); err != nil {
			return err
		}
		upsert := true
		models[i] = &mongo.UpdateOneModel{
			Upsert: &upsert,
			Filter: bson.D{{Key: fieldProduct, Value: p.ID}},
			Update: bson.Raw(s.codec.appendProduct(nil, p, now)),
		}
	}
	_, err := s.products.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	exception, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok {
		return markWrite("write products", err)
	}
	if len(exception.WriteErrors) > 0 {
		// One stands for all: the import is repeated when it is cured.
		failure := exception.WriteErrors[0]
		return mark(fmt.Sprintf("write product %d", products[failure.Index].ID), failure.WriteError)
	}
	return fmt.Errorf("%w: MongoDB: no majority has the products: %w", engine.ErrUnknown, exception.WriteConcernError)
}

// storable returns a permanent error for a vector that is no use to anyone.
func storable(p *profile.Product) error {
	for i, x := range p.Vector {
		if x-x != 0 {
			return engine.PermanentError("not_finite", fmt.Errorf("product %d: vector holds %v at component %d", p.ID, x, i))
		}
	}
	if len(p.Vector) > profile.MaxDimensions {
		return engine.PermanentError("wrong_dimensions", fmt.Errorf(
			"product %d: vector has %d components, at most %d can be used", p.ID, len(p.Vector), profile.MaxDimensions))
	}
	return nil
}
