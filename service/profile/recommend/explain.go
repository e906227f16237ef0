package recommend

import (
	"context"
	"iter"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/service/profile/explanation"
)

// reasonsTimeout is how long an answer waits for the vectors of phrases.
const reasonsTimeout = 2 * time.Second

// explain names the events that put each product of the answer there. Where a phrase's vector
// cannot be had now, the answer says so and names none.
func (r *Recommender) explain(ctx context.Context, p *profile.Profile, events []explanation.Event, mix float64, a *Answer) error {
	ids := make([]int32, len(a.Products))
	for i, product := range a.Products {
		ids[i] = product.ID
	}
	in := explanation.Input{Profile: p, Events: events, Laws: r.ports.Laws, Phrases: r.ports.Phrases, Store: ofProducts{r.ports.Products}}
	bounded, cancel := context.WithTimeout(ctx, reasonsTimeout)
	defer cancel()
	reasons, err := explanation.Because(bounded, in, ids, mix)
	for i := range reasons {
		a.Products[i].Because, a.Products[i].Remainder = reasons[i].Because, reasons[i].Remainder
	}
	if err != nil && engine.KindOf(err) != engine.Permanent && ctx.Err() == nil {
		a.Note = "no reasons: a phrase's vector cannot be had now"
		return nil
	}
	return err
}

// ofProducts is how explanations read the catalogue.
type ofProducts struct{ of Products }

func (p ofProducts) Products(ctx context.Context, ids []int32) ([]profile.Product, error) {
	return p.of.Products(ctx, ids)
}

func (ofProducts) ProductStreams(context.Context) []iter.Seq2[profile.Product, error] { return nil }
