// Package products imports catalogues, whatever store they go to.
package products

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"keyfold/engine"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// Store keeps products.
type Store interface {
	PutProducts(ctx context.Context, products []engine.Product, now engine.Millis) error
}

// Import says how products are imported.
type Import struct {
	Store      Store
	Dimensions int
	// Embedder makes the vectors of products that have none; nil: that is an
	// error.
	Embedder vector.Embedder
	// Stored hears how many products were stored so far; may be nil.
	Stored func(int)
}

// chunk is how many products share a round trip.
const chunk = 250

// All stores the products, chunk by chunk, and returns how many: what was stored
// before a fault stays, and storing it again changes nothing.
func (im *Import) All(ctx context.Context, products iter.Seq2[engine.Product, error]) (stored int, err error) {
	var waiting []engine.Product
	flush := func() error {
		if err := im.store(ctx, waiting); err != nil {
			return err
		}
		stored += len(waiting)
		waiting = waiting[:0]
		if im.Stored != nil {
			im.Stored(stored)
		}
		return nil
	}
	for p, err := range products {
		if err != nil {
			return stored, errors.Join(err, flush())
		}
		if p.Vector == nil && im.Embedder == nil {
			return stored, errors.Join(fmt.Errorf(
				"product %d has no embedding: add --embed to make one from its name and category", p.ID), flush())
		}
		if waiting = append(waiting, p); len(waiting) == chunk {
			if err := flush(); err != nil {
				return stored, err
			}
		}
	}
	return stored, flush()
}

// store embeds what has no vector and writes one chunk.
func (im *Import) store(ctx context.Context, products []engine.Product) error {
	if len(products) == 0 {
		return nil
	}
	if err := im.embed(ctx, products); err != nil {
		return err
	}
	for i := range products {
		if _, err := engine.Unit(products[i].Vector, im.Dimensions); err != nil {
			return fmt.Errorf("product %d: %w", products[i].ID, err)
		}
	}
	return im.Store.PutProducts(ctx, products, engine.Now())
}

func (im *Import) embed(ctx context.Context, products []engine.Product) error {
	var texts []string
	var without []int
	for i := range products {
		if products[i].Vector == nil {
			texts = append(texts, catalog.EmbedText(products[i]))
			without = append(without, i)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	vectors, err := im.Embedder.Embed(ctx, texts)
	if err != nil {
		return err
	}
	for k, i := range without {
		products[i].Vector, products[i].Model = vectors[k], im.Embedder.Model()
	}
	return nil
}
