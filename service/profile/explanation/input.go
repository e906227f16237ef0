package explanation

import (
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
	State string        // why it is not in the profile; "" where it is
	Since engine.Millis // when it was stored or sent; 0: not known
}

// Store has the catalogue.
type Store interface {
	Products(ctx context.Context, ids []int32) ([]profile.Product, error)
	// ProductStreams returns all products, in streams that may be read beside each other.
	ProductStreams(ctx context.Context) []iter.Seq2[profile.Product, error]
}

// Input is what an explanation is made of.
type Input struct {
	Profile *profile.Profile
	Events  []Event
	Note    string // why there are no events, or not all; "" otherwise
	Laws    profile.Config
	Phrases engine.Vectors[string]
	Store   Store
}

// check refuses a profile whose vector is not of these settings.
func (in *Input) check() error {
	p := in.Profile
	switch {
	case p.Erased():
		return fmt.Errorf("user %d was erased at %s: nothing is left to explain", p.UserID, p.ErasedAt.Time().Format("2006-01-02 15:04:05 MST"))
	case p.Model != "" && p.Model != in.Laws.Model:
		return fmt.Errorf("the profile of user %d was made with vectors of the model %q, the settings name %q: explain it with the settings that made it", p.UserID, p.Model, in.Laws.Model)
	case len(p.Vector) != in.Laws.Dimensions:
		return fmt.Errorf("the profile of user %d has %d dimensions, the settings name %d: explain it with the settings that made it", p.UserID, len(p.Vector), in.Laws.Dimensions)
	}
	return nil
}

// resolveChunk is how many vectors are asked for at once.
const resolveChunk = 1000

// product is one of the catalogue, with its unit vector instead of the stored one.
type product struct {
	profile.Product
	unit []float64 // nil: it has none of this model
}

// resolve returns the events with their weights, vectors and categories. Events of one
// product share its vector.
func (in *Input) resolve(ctx context.Context) ([]explain.Event, map[int32]product, error) {
	var ids []int32
	var phrases []string
	for i := range in.Events {
		switch e := &in.Events[i]; {
		case e.ProductID != 0:
			ids = append(ids, e.ProductID)
		case e.Phrase != "" && e.State == "":
			phrases = append(phrases, e.Phrase)
		}
	}
	known := map[int32]product{}
	units, err := in.resolvePhrases(ctx, phrases)
	if err := errors.Join(err, in.read(ctx, known, ids)); err != nil {
		return nil, nil, err
	}
	events := make([]explain.Event, len(in.Events))
	for i := range in.Events {
		e := &in.Events[i]
		weight, err := in.Laws.Weights.Of(e.Type)
		if err != nil {
			return nil, nil, err
		}
		vector := units[e.Phrase]
		if e.ProductID != 0 {
			vector = known[e.ProductID].unit
		}
		events[i] = explain.Event{Event: e.Event, Weight: weight, Vector: vector, Category: known[e.ProductID].Category, State: e.State}
	}
	return events, known, nil
}

// read adds products to those that are known.
func (in *Input) read(ctx context.Context, known map[int32]product, ids []int32) error {
	slices.Sort(ids)
	for chunk := range slices.Chunk(slices.Compact(ids), resolveChunk) {
		products, err := in.Store.Products(ctx, chunk)
		if err != nil {
			return err
		}
		for _, p := range products {
			k := product{Product: p}
			if k.Vector = nil; p.Model == "" || p.Model == in.Laws.Model {
				k.unit, _ = engine.Unit(p.Vector, in.Laws.Dimensions) // one that cannot be used is none
			}
			known[p.ID] = k
		}
	}
	return nil
}

// resolvePhrases returns the phrases' vectors. One that can never be had is none; an error
// that may pass is returned.
func (in *Input) resolvePhrases(ctx context.Context, phrases []string) (map[string][]float64, error) {
	units := map[string][]float64{}
	slices.Sort(phrases)
	for chunk := range slices.Chunk(slices.Compact(phrases), resolveChunk) {
		for i, r := range in.Phrases.Resolve(ctx, chunk) {
			if r.Err != nil && engine.KindOf(r.Err) != engine.Permanent {
				return nil, r.Err
			}
			units[chunk[i]] = r.Vector
		}
	}
	return units, ctx.Err()
}
