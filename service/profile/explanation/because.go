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
	b := &builder{Input: in, Explanation: explain.Of(in.Laws, in.Profile, events), known: known}
	var second *explain.Explanation
	if mix > 0 {
		second = explain.Second(in.Laws, in.Profile, events)
	}
	gathered, rest := b.gather(mix, second)
	all := make([]Near, len(products))
	for i, id := range products {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all[i] = Near{ProductID: id, Title: cmp.Or(known[id].Name, fmt.Sprintf("product %d", id))}
		if vector := known[id].unit; vector != nil {
			all[i].Cosine = floats.Dot(vector, query)
			all[i].because(vector, gathered, rest)
		}
	}
	return all, nil
}

// reference is what an event is of.
type reference struct {
	product int32
	phrase  string
}

// weighed is what all events of one reference count in the vector that products are near to.
type weighed struct {
	part   Part // without its share
	vector []float64
	weight float64
}

// gather adds up what events count, once for all products: a user may have many events of few
// products. rest is the vector less what all of these count. second is nil without a mix.
func (b *builder) gather(mix float64, second *explain.Explanation) (all []weighed, rest []float64) {
	first := b.Profile.Vector
	rest = make([]float64, len(first))
	a, c := 1.0, 0.0
	others := map[string]float64{}
	if second != nil {
		floats.ScaleTo(rest, 1-mix, first)
		floats.AddScaled(rest, mix, b.Profile.Short.Vector)
		if length := floats.Norm(rest, 2); length > 0 { // the query is the mix as a unit vector
			a, c = (1-mix)/length, mix/length
		}
		for _, p := range second.Parts {
			others[p.Event.MessageID] += c * share(p.Coefficient, b.Profile.Short.Mass)
		}
	}
	floats.ScaleTo(rest, a, first)
	if second != nil {
		floats.AddScaled(rest, c, b.Profile.Short.Vector)
	}
	at := map[reference]int{}
	for _, p := range b.Parts {
		if p.Event.State != "" || p.Event.Vector == nil {
			continue
		}
		weight := a*share(p.Coefficient, b.Profile.Mass) + others[p.Event.MessageID]
		delete(others, p.Event.MessageID) // of several with one id the first has it
		of := reference{p.Event.ProductID, p.Event.Phrase}
		i, known := at[of]
		if !known {
			i, at[of] = len(all), len(all)
			all = append(all, weighed{part: b.part(p.Event), vector: p.Event.Vector})
		}
		w := &all[i]
		if when := p.Event.OccurredAt.Time(); when.After(w.part.OccurredAt) {
			w.part.OccurredAt, w.part.MessageID, w.part.Type = when, p.Event.MessageID, p.Event.Type.String()
		}
		w.part.Events++
		w.weight += weight
	}
	for _, w := range all {
		floats.AddScaled(rest, -w.weight, w.vector)
	}
	return all, rest
}

// share is a coefficient as a part of a vector of length 1; of a profile without mass it is
// none.
func share(coefficient, mass float64) float64 {
	if mass == 0 {
		return 0
	}
	return coefficient / mass
}

// because names the references with the largest shares of a product's score.
func (n *Near) because(product []float64, gathered []weighed, rest []float64) {
	if n.Cosine == 0 {
		return
	}
	n.Remainder = floats.Dot(rest, product) / n.Cosine
	all := make([]Part, len(gathered))
	for i, w := range gathered {
		all[i] = w.part
		all[i].Share = w.weight * floats.Dot(w.vector, product) / n.Cosine
	}
	slices.SortStableFunc(all, func(x, y Part) int { return cmp.Compare(y.Share, x.Share) })
	n.Because = all[:min(reasons, len(all))]
}
