package processor

import (
	"errors"
	"fmt"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// vectors are the answers one flush has got so far: each distinct product and
// phrase is asked for once, however many events and users share it.
type vectors struct {
	products map[int32]engine.Resolved
	phrases  map[string]engine.Resolved
}

func newVectors() *vectors {
	return &vectors{products: map[int32]engine.Resolved{}, phrases: map[string]engine.Resolved{}}
}

func (v *vectors) of(e *profile.Event) engine.Resolved {
	if e.Type.HasPhrase() {
		return v.phrases[e.Phrase]
	}
	return v.products[e.ProductID]
}

// step returns what an event adds to its user's sum. The error is that of its vector, or
// says that its type has no weight.
func (v *vectors) step(e *profile.Event, weights *profile.Weights) (profile.Step, error) {
	weight, err := weights.Of(e.Type)
	if err != nil {
		return profile.Step{}, err
	}
	r := v.of(e)
	return profile.Step{Vector: r.Vector, Weight: weight, At: e.OccurredAt}, r.Err
}

// resolve asks for whatever the works' events still lack. Products come from a
// store: one that fails to answer is away, which is no event's fault, so its
// error is returned and the same products are asked for again. A phrase that
// cannot be embedded for now is its event's own matter.
func (f *flush) resolve() (down error) {
	var products []int32
	var phrases []string
	for i := range f.works {
		for j := range f.works[i].events {
			e := &f.works[i].events[j].Event
			if e.Type.HasPhrase() {
				phrases = appendMissing(f.vectors.phrases, phrases, e.Phrase)
			} else {
				products = appendMissing(f.vectors.products, products, e.ProductID)
			}
		}
	}
	if len(products) > 0 {
		for i, r := range f.ports.Products.Resolve(f.ctx, products) {
			if transient(r.Err) {
				delete(f.vectors.products, products[i])
				down = fmt.Errorf("the catalogue is %w: %w", engine.ErrAway, r.Err)
				continue
			}
			f.vectors.products[products[i]] = r
		}
	}
	if len(phrases) > 0 {
		for i, r := range f.ports.Phrases.Resolve(f.ctx, phrases) {
			f.vectors.phrases[phrases[i]] = r
		}
	}
	return down
}

func transient(err error) bool {
	return err != nil && !errors.Is(err, engine.ErrMissing) && engine.KindOf(err) == engine.Transient
}

// appendMissing adds key to keys unless it was asked for before.
func appendMissing[K comparable](known map[K]engine.Resolved, keys []K, key K) []K {
	if _, ok := known[key]; ok {
		return keys
	}
	known[key] = engine.Resolved{} // asked for; the answer replaces it
	return append(keys, key)
}
