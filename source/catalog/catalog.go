package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Catalog resolves product ids to unit vectors: the engine's port over a
// [Store]. It is safe for concurrent use.
type Catalog struct {
	config Config
	store  Store
	cache  *cache
}

var _ engine.Vectors[int32] = (*Catalog)(nil)

// New returns the port over a store.
func New(config Config, store Store) (*Catalog, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Catalog{
		config: config,
		store:  store,
		cache:  newCache(config.CacheBytes, config.CacheTTL),
	}, nil
}

// Resolve returns a unit vector or an error per id, aligned with ids, which are
// distinct.
//
// Errors: [engine.ErrMissing] where a read of the last [FaultTTL] confirmed
// that there is no such product; what [engine.Unit] refuses is permanent; the
// vector of another model is a configuration fault ("other_model"). All these
// are their product's alone. A look-up that failed is the error of the ids it
// was made for, of the kind the store gave it, and is not kept.
func (c *Catalog) Resolve(ctx context.Context, ids []int32) []engine.Resolved {
	answers := make([]engine.Resolved, len(ids))
	unread := c.cache.fill(answers, ids, time.Now())
	for chunk := range slices.Chunk(unread, c.config.Chunk) {
		c.read(ctx, answers, ids, chunk)
	}
	return answers
}

// read answers the ids at these positions in one look-up.
func (c *Catalog) read(ctx context.Context, answers []engine.Resolved, ids []int32, positions []int) {
	asked := make([]int32, len(positions))
	for i, p := range positions {
		asked[i] = ids[p]
	}
	// The store's answer is as old as the question.
	asOf := time.Now()
	products, err := c.store.Products(ctx, asked)
	if err != nil {
		err = fmt.Errorf("product look-up: %w", err)
		for _, p := range positions {
			answers[p].Err = err
		}
		return
	}
	found := make(map[int32]engine.Resolved, len(products))
	for i := range products {
		found[products[i].ID] = c.resolved(&products[i])
	}
	for _, p := range positions {
		r, ok := found[ids[p]]
		if !ok {
			r.Err = fmt.Errorf("product %d: %w", ids[p], engine.ErrMissing)
		}
		answers[p] = r
	}
	c.cache.put(answers, ids, positions, asOf)
}

// resolved is the answer for a product that was read.
func (c *Catalog) resolved(p *profile.Product) engine.Resolved {
	if p.Model != "" && p.Model != c.config.Model {
		return engine.Resolved{Err: engine.ConfigurationError("other_model", fmt.Errorf(
			"product %d has a vector of model %q, this worker has %q: re-import it with `products import FILE --embed`",
			p.ID, p.Model, c.config.Model))}
	}
	unit, err := engine.Unit(p.Vector, c.config.Dimensions)
	if err != nil {
		return engine.Resolved{Err: fmt.Errorf(
			"product %d: %w: re-import it with `products import FILE --embed`", p.ID, err)}
	}
	return engine.Resolved{Vector: unit}
}
