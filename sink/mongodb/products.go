package mongodb

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
)

// productChunk is how many products one round trip reads or writes.
const productChunk = 256

// Products returns those of the products that exist, in any order. A product
// whose vector cannot be read is returned without one.
func (s *Store) Products(ctx context.Context, ids []int32) ([]engine.Product, error) {
	if err := ended(ctx, "read products"); err != nil {
		return nil, err
	}
	products := make([]engine.Product, 0, len(ids))
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
	return products, nil
}

// AllProducts yields every product in the order of ids, until the first error.
// Each page is as of its own reading.
func (s *Store) AllProducts(ctx context.Context) iter.Seq2[engine.Product, error] {
	return pages(func(after int64) (all []engine.Product, last int64, err error) {
		filter, how := page(fieldProduct, after)
		err = s.find(ctx, s.products, filter, how, func(doc bson.Raw) error {
			p, err := s.codec.product(doc)
			all, last = append(all, p), int64(p.ID)
			return err
		})
		return all, last, err
	})
}

// PutProducts inserts products or replaces those of the same id; now becomes
// their updated_at, and created_at of the new ones. It writes in chunks: after
// an error some may be written, and writing all again does no harm. Fields that
// keyfold does not know stay.
func (s *Store) PutProducts(ctx context.Context, products []engine.Product, now engine.Millis) error {
	for chunk := range slices.Chunk(products, productChunk) {
		if err := ended(ctx, "write products"); err != nil {
			return err
		}
		if err := s.putChunk(ctx, chunk, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) putChunk(ctx context.Context, products []engine.Product, now engine.Millis) error {
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
	exception, ok := asException(err)
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
func storable(p *engine.Product) error {
	for i, x := range p.Vector {
		if x-x != 0 {
			return engine.PermanentError("not_finite", fmt.Errorf("product %d: vector holds %v at component %d", p.ID, x, i))
		}
	}
	if len(p.Vector) > engine.MaxDimensions {
		return engine.PermanentError("wrong_dimensions", fmt.Errorf(
			"product %d: vector has %d components, at most %d can be used", p.ID, len(p.Vector), engine.MaxDimensions))
	}
	return nil
}
