package profiles

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/service/profile/embedding"
)

// patientPhrases asks again for phrases the API could not embed for now: a
// rebuild has no queue to put a user back into.
type patientPhrases struct {
	way *embedding.Embedding
	log *slog.Logger
}

// phrasePause is what lies between two attempts: a breaker that is open has its own
// time.
const phrasePause = 2 * time.Second

// Resolve makes up to five attempts at what may pass.
func (p patientPhrases) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := p.way.Phrases.Resolve(ctx, phrases)
	for attempt := 1; attempt < 5 && ctx.Err() == nil; attempt++ {
		var again []string
		var at []int
		var cause error
		for i, r := range answers {
			if r.Err != nil && engine.KindOf(r.Err) == engine.Transient {
				again, at, cause = append(again, phrases[i]), append(at, i), r.Err
			}
		}
		if len(again) == 0 {
			break
		}
		p.log.Warn("phrases not embedded", slog.Int("phrases", len(again)),
			slog.Int("attempt", attempt), slog.Duration("retry_in", phrasePause), slog.Any("error", cause),
			slog.String("hint", "check that the embedding API answers; the command waits for it"))
		select {
		case <-time.After(phrasePause):
		case <-ctx.Done():
		}
		for k, r := range p.way.Phrases.Resolve(ctx, again) {
			answers[at[k]] = r
		}
	}
	return answers
}
