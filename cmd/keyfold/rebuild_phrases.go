package main

import (
	"context"
	"time"

	"keyfold/cmd/embedding"
	"keyfold/engine"
)

// patientPhrases asks again for phrases the API could not embed for now: a
// rebuild has no queue to put a user back into.
type patientPhrases struct{ way *embedding.Embedding }

// Resolve makes up to five attempts at what may pass.
func (p patientPhrases) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := p.way.Phrases.Resolve(ctx, phrases)
	for attempt := 1; attempt < 5 && ctx.Err() == nil; attempt++ {
		var again []string
		var at []int
		for i, r := range answers {
			if r.Err != nil && engine.KindOf(r.Err) == engine.Transient {
				again, at = append(again, phrases[i]), append(at, i)
			}
		}
		if len(again) == 0 {
			break
		}
		select {
		case <-time.After(2 * time.Second): // a breaker that is open has its own time
		case <-ctx.Done():
		}
		for k, r := range p.way.Phrases.Resolve(ctx, again) {
			answers[at[k]] = r
		}
	}
	return answers
}
