// Package products imports catalogues, whatever store they go to.
package products

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/engine/profile"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// Store keeps products.
type Store interface {
	PutProducts(ctx context.Context, products []profile.Product, now engine.Millis) error
}

// Import says how products are imported.
type Import struct {
	Store      Store
	Dimensions int
	// Embedder makes the vectors of products that have none; nil: that is an
	// error.
	Embedder vector.Embedder
	// Known, where it is set, spares the embedder products whose vector is there
	// already, made by the same model from the same text, and the store those it
	// has as they are. So an import that was stopped goes on where it was, and
	// one of a changed catalogue costs what has changed.
	Known interface {
		Products(ctx context.Context, ids []int32) ([]profile.Product, error)
	}
	// SkipBad leaves bad products out. Without it, none is stored from the first
	// bad one on, and the others are only checked.
	SkipBad bool
	// Stored hears how many products were stored so far; may be nil.
	Stored func(int)

	// Bad is what [Import.All] found.
	Bad BadProducts
}

// chunk is how many products share a round trip.
const chunk = 250

// Imported counts products.
type Imported struct {
	Stored   int `json:"imported"`
	Embedded int `json:"embedded"` // of those, vectors made now
	Known    int `json:"known"`    // and vectors taken from the store
	Nameless int `json:"nameless"` // of those embedded, without name and category
	Skipped  int `json:"skipped"`  // bad ones that were left out
}

// All stores the products, chunk by chunk, and returns how many: what was stored
// before a fault stays, and storing it again changes nothing. It reads to the end
// and reports the bad products together, as a [*BadProducts].
func (im *Import) All(ctx context.Context, products iter.Seq2[profile.Product, error]) (done Imported, err error) {
	im.Bad = BadProducts{}
	var waiting []profile.Product
	flush := func() error {
		stored, err := im.flush(ctx, waiting, &done)
		waiting = waiting[:0]
		if done.Stored += stored; im.Stored != nil && stored > 0 {
			im.Stored(done.Stored)
		}
		return err
	}
	for p, err := range products {
		if bad, ok := errors.AsType[*catalog.LineError](err); ok {
			if !im.SkipBad && im.Bad.Count == 0 {
				if err := flush(); err != nil {
					return done, err
				}
			}
			im.Bad.add(bad)
			continue
		}
		if err != nil {
			return done, errors.Join(err, flush())
		}
		if waiting = append(waiting, p); len(waiting) == chunk {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	if err := flush(); err != nil || im.Bad.Count == 0 {
		return done, err
	}
	if im.SkipBad {
		done.Skipped = im.Bad.Count
		return done, nil
	}
	return done, &im.Bad
}

// flush checks a chunk and stores it, and returns how many products that were.
func (im *Import) flush(ctx context.Context, products []profile.Product, done *Imported) (int, error) {
	good := make([]profile.Product, 0, len(products))
	for i := range products {
		if err := im.check(&products[i]); err != nil {
			im.Bad.add(err)
			continue
		}
		good = append(good, products[i])
	}
	if im.Bad.Count > 0 && !im.SkipBad {
		return 0, ctx.Err()
	}
	if err := im.store(ctx, good, done); err != nil {
		return 0, err
	}
	return len(good), nil
}

// The settings that faults name.
const (
	dimensionsSetting cure.Name = "profile.Config.Dimensions"
	memorySetting     cure.Name = "settings.Config.Memory"
)

// check refuses a product that cannot be stored.
func (im *Import) check(p *profile.Product) error {
	if p.Vector != nil {
		if _, err := engine.Unit(p.Vector, im.Dimensions); err != nil {
			return fmt.Errorf("product %d: %w: correct its embedding in the file, or set %s (%d now) "+
				"to the length the vectors have", p.ID, err, dimensionsSetting, im.Dimensions)
		}
		return nil
	}
	if im.Embedder == nil {
		return fmt.Errorf("product %d has no embedding: add --embed to make one from its name and category", p.ID)
	}
	return nil
}

// store embeds what has no vector and writes one chunk.
func (im *Import) store(ctx context.Context, products []profile.Product, done *Imported) error {
	if len(products) == 0 {
		return nil
	}
	same, err := im.recall(ctx, products, done)
	if err != nil {
		return err
	}
	if err := im.embed(ctx, products, done); err != nil {
		return err
	}
	for i := range products {
		if _, err := engine.Unit(products[i].Vector, im.Dimensions); err != nil {
			return fmt.Errorf("product %d: its embedding was made now, and cannot be used: %w", products[i].ID, err)
		}
	}
	products = slices.DeleteFunc(products, func(p profile.Product) bool { return same[p.ID] })
	if len(products) == 0 {
		return nil
	}
	return im.Store.PutProducts(ctx, products, engine.Now())
}

// recall gives products the vectors the store has for them, and says which the
// store has as they are.
func (im *Import) recall(ctx context.Context, products []profile.Product, done *Imported) (same map[int32]bool, err error) {
	if im.Known == nil {
		return nil, nil
	}
	wanted := map[int32]*profile.Product{}
	for i := range products {
		wanted[products[i].ID] = &products[i] // of an id that comes twice the last counts
	}
	known, err := im.Known.Products(ctx, slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return nil, err
	}
	same = map[int32]bool{}
	for i := range known {
		k, p := &known[i], wanted[known[i].ID]
		if p == nil {
			continue
		}
		_, unusable := engine.Unit(k.Vector, im.Dimensions)
		if p.Vector == nil && im.Embedder != nil && k.Model == im.Embedder.Model() && unusable == nil &&
			catalog.EmbedText(*k) == catalog.EmbedText(*p) {
			p.Vector, p.Model = k.Vector, k.Model
			done.Known++
		}
		same[p.ID] = p.Name == k.Name && p.Category == k.Category && p.Model == k.Model && slices.Equal(p.Vector, k.Vector)
	}
	return same, nil
}

// embed makes the vectors that are missing.
func (im *Import) embed(ctx context.Context, products []profile.Product, done *Imported) error {
	var texts []string
	var without []int
	for i := range products {
		if products[i].Vector == nil {
			if products[i].Name == "" && products[i].Category == "" {
				done.Nameless++
			}
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
	done.Embedded += len(without)
	return nil
}
