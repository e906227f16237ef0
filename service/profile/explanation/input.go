package explanation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/explain"
)

// MostEvents is how many of a user's newest events are read. Older ones are part of the
// remainder.
const MostEvents = 100_000

// Event is an event of the user's history.
type Event struct {
	profile.Event
	State string // why it is not in the profile; "" where it is
}

// Store has the catalogue.
type Store interface {
	Products(ctx context.Context, ids []int32) ([]profile.Product, error)
	AllProducts(ctx context.Context) iter.Seq2[profile.Product, error]
}

// Input is what an explanation is made of.
type Input struct {
	Profile  *profile.Profile
	Events   []Event
	Note     string // why there are no events, or not all; "" otherwise
	Laws     profile.Config
	Products engine.Vectors[int32]
	Phrases  engine.Vectors[string]
	Store    Store
}

// check refuses a profile whose vector is not of these settings.
func (in *Input) check() error {
	p := in.Profile
	switch {
	case p.Erased():
		return fmt.Errorf("user %d was erased at %s: nothing is left to explain", p.UserID, p.ErasedAt.Time().Format("2006-01-02 15:04:05 MST"))
	case p.Model != in.Laws.Model:
		return fmt.Errorf("the profile of user %d was made with vectors of the model %q, the settings name %q: explain it with the settings that made it", p.UserID, p.Model, in.Laws.Model)
	case len(p.Vector) != in.Laws.Dimensions:
		return fmt.Errorf("the profile of user %d has %d dimensions, the settings name %d: explain it with the settings that made it", p.UserID, len(p.Vector), in.Laws.Dimensions)
	}
	return nil
}

// resolveChunk is how many vectors are asked for at once.
const resolveChunk = 1000

// resolve returns the events with their weights, vectors and categories. Events of one
// product share its vector.
func (in *Input) resolve(ctx context.Context) ([]explain.Event, map[int32]profile.Product, error) {
	products, phrases := map[int32]engine.Resolved{}, map[string]engine.Resolved{}
	for i := range in.Events {
		switch e := &in.Events[i]; {
		case e.State != "":
		case e.ProductID != 0:
			products[e.ProductID] = engine.Resolved{}
		case e.Phrase != "":
			phrases[e.Phrase] = engine.Resolved{}
		}
	}
	known, err := in.catalogue(ctx)
	if err := errors.Join(err, resolved(ctx, in.Products, products), resolved(ctx, in.Phrases, phrases)); err != nil {
		return nil, nil, err
	}
	events := make([]explain.Event, len(in.Events))
	for i := range in.Events {
		e := &in.Events[i]
		weight, err := in.Laws.Weights.Of(e.Type)
		if err != nil {
			return nil, nil, err
		}
		vector := phrases[e.Phrase].Vector
		if e.ProductID != 0 {
			vector = products[e.ProductID].Vector
		}
		events[i] = explain.Event{Event: e.Event, Weight: weight, Vector: vector, Category: known[e.ProductID].Category, State: e.State}
	}
	return events, known, nil
}

// catalogue returns the products of the events, without their vectors.
func (in *Input) catalogue(ctx context.Context) (map[int32]profile.Product, error) {
	known := map[int32]profile.Product{}
	var ids []int32
	for i := range in.Events {
		if id := in.Events[i].ProductID; id != 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for chunk := range slices.Chunk(slices.Compact(ids), resolveChunk) {
		products, err := in.Store.Products(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for _, p := range products {
			p.Vector = nil
			known[p.ID] = p
		}
	}
	return known, nil
}

// resolved fills in the vectors. One that can never be had is none; an error that may pass
// is returned.
func resolved[K cmp.Ordered](ctx context.Context, from engine.Vectors[K], into map[K]engine.Resolved) error {
	keys := make([]K, 0, len(into))
	for key := range into {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for chunk := range slices.Chunk(keys, resolveChunk) {
		for i, r := range from.Resolve(ctx, chunk) {
			if r.Err != nil && !errors.Is(r.Err, engine.ErrMissing) && engine.KindOf(r.Err) != engine.Permanent {
				return r.Err
			}
			into[chunk[i]] = r
		}
	}
	return ctx.Err()
}
