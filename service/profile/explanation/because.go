package explanation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile/explain"
)

// Because returns, aligned with the products, the events that put each where it is: those
// with the largest shares of its cosine to mix x the profile's second vector + (1 - mix) x
// the first, as a unit vector. Events of one product or of one phrase are taken together. A
// product without a usable vector has none.
func Because(ctx context.Context, in Input, products []int32, mix float64) ([]Near, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	query, err := in.Profile.Mixed(mix)
	if err != nil {
		return nil, err
	}
	events, known, err := in.resolve(ctx)
	if err == nil {
		err = in.read(ctx, known, slices.Clone(products)) // it sorts them
	}
	if err != nil {
		return nil, err
	}
	b := &builder{Input: in, Explanation: explain.Of(in.Laws, in.Profile, events), known: known, together: true}
	if mix > 0 {
		b.mix, b.second = mix, explain.Second(in.Laws, in.Profile, events)
	}
	all := make([]Near, len(products))
	for i, id := range products {
		all[i] = Near{ProductID: id, Title: cmp.Or(known[id].Name, fmt.Sprintf("product %d", id))}
		if vector := known[id].unit; vector != nil {
			all[i].Cosine = floats.Dot(vector, query)
			b.because(&all[i], vector)
		}
	}
	return all, nil
}

// score tells which events make the score of a product's unit vector.
func (b *builder) score(product []float64) explain.Score {
	if b.second == nil {
		return b.Score(product)
	}
	first, second := b.Profile.Vector, b.Profile.Short.Vector
	// The length of the mix, of which the query is the unit vector.
	mixed := floats.ScaleTo(make([]float64, len(first)), 1-b.mix, first)
	floats.AddScaled(mixed, b.mix, second)
	length := floats.Norm(mixed, 2)
	if length == 0 {
		length = 1
	}
	return explain.Mix((1-b.mix)/length, b.Score(product), b.mix/length, b.second.Score(product))
}

// reference is what an event is of.
type reference struct {
	product int32
	phrase  string
}

// gathered returns the references with the largest shares of a score.
func (b *builder) gathered(score explain.Score) []Part {
	at := map[reference]int{}
	var all []Part
	for _, p := range score.Parts {
		of := reference{p.Event.ProductID, p.Event.Phrase}
		i, known := at[of]
		if !known {
			i, at[of] = len(all), len(all)
			all = append(all, b.part(p.Event))
		}
		part := &all[i]
		if when := p.Event.OccurredAt.Time(); when.After(part.OccurredAt) {
			part.OccurredAt, part.MessageID, part.Type = when, p.Event.MessageID, p.Event.Type.String()
		}
		part.Events++
		part.Share += p.Score / score.Cosine
	}
	slices.SortStableFunc(all, func(x, y Part) int { return cmp.Compare(y.Share, x.Share) })
	return all[:min(reasons, len(all))]
}
