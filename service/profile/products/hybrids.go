package products

import (
	"context"
	"iter"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/catalog/learned"
)

// Written counts the products of [Lesson.Write].
type Written struct {
	Products int `json:"written"`
	Textless int `json:"without_text_vector"` // the learned one alone
	Cold     int `json:"without_learned"`     // the text's alone
	Neither  int `json:"without_vector"`      // none: they are there, and cannot be found
}

// Write stores each product of a catalogue with its hybrid vector. A product that changes
// meanwhile is stored as it was when it was read.
func (l *Lesson) Write(ctx context.Context, from iter.Seq2[profile.Product, error], to Store) (done Written, err error) {
	now := engine.Now()
	waiting := make([]profile.Product, 0, chunk)
	flush := func() error {
		if err := to.PutProducts(ctx, waiting, now); err != nil {
			return err
		}
		done.Products += len(waiting)
		waiting = waiting[:0]
		l.learning.Progress("writing products", done.Products, l.Products)
		return nil
	}
	for p, err := range from {
		if err != nil {
			return done, err
		}
		if waiting = append(waiting, l.hybrid(p, &done)); len(waiting) < chunk {
			continue
		}
		if err := flush(); err != nil {
			return done, err
		}
	}
	return done, flush()
}

// hybrid returns a product with its hybrid vector, and counts what it has.
func (l *Lesson) hybrid(p profile.Product, done *Written) profile.Product {
	text := p.Vector
	if p.Model != "" && p.Model != l.learning.TextModel {
		text = nil // it cannot be compared with phrases
	}
	size, own := l.learning.TextDimensions, l.vector(p.ID)
	joined := learned.Join(text, own, size, l.learning.Components, l.learning.Share)
	switch {
	case joined == nil:
		done.Neither++
		joined = []float32{}
	case learned.Text(joined, size, l.learning.Components) == nil:
		done.Textless++
	case own == nil:
		done.Cold++
	}
	p.Vector, p.Model = joined, l.Model()
	return p
}

// Texts yields a catalogue of hybrid vectors with those of its texts, which is what another
// lesson begins with: the products of the model that has these components learned.
func Texts(catalogue iter.Seq2[profile.Product, error], model string, dimensions int, of profile.Learned) iter.Seq2[profile.Product, error] {
	if of.Components == 0 {
		return catalogue
	}
	return func(yield func(profile.Product, error) bool) {
		for p, err := range catalogue {
			if p.Model == "" || p.Model == of.Model(model) {
				p.Vector, p.Model = learned.Text(p.Vector, dimensions, of.Components), model
			}
			if !yield(p, err) {
				return
			}
		}
	}
}
