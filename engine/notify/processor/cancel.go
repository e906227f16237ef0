package processor

import (
	"context"
	"sync"

	"keyfold/engine/notify"
)

// Cancel ends what waits, and returns what became of each cancellation, aligned with them.
// Their records are stored when it returns, but for verdicts with an error. A user may be in
// a call of Apply at the same time, also of another process: one of them decides again.
func (p *Processor) Cancel(ctx context.Context, all []notify.Cancellation) []Verdict {
	verdicts := make([]Verdict, len(all))
	var mu sync.Mutex
	byUser := map[string]int{}
	var batches []Batch
	for i := range all {
		c := &all[i]
		at, met := byUser[c.User]
		if !met {
			at = len(batches)
			byUser[c.User] = at
			batches = append(batches, Batch{User: c.User})
		}
		batches[at].Deliveries = append(batches[at].Deliveries, Delivery{Cancel: c, Settler: SettlerFunc(func(v Verdict) {
			mu.Lock()
			defer mu.Unlock()
			verdicts[i] = v
		})})
	}
	p.Apply(ctx, batches)
	return verdicts
}
