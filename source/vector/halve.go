package vector

import (
	"context"
	"errors"
	"fmt"

	"keyfold/engine"
)

// ask calls an embedder for texts and answers each, with a vector or an error.
// A call refused for good, or failed for its own phrases, is made again in halves, so
// that one bad phrase costs no other its vector.
func ask(ctx context.Context, e Embedder, s *Stats, texts []string, answer func(text string, raw []float32, err error)) {
	if len(texts) == 0 {
		return
	}
	raw, err := e.Embed(ctx, texts)
	if err == nil && len(raw) != len(texts) {
		err = fmt.Errorf("embedder %s gave %d vectors for %d phrases", e.Model(), len(raw), len(texts))
	}
	if err == nil {
		for i, text := range texts {
			answer(text, raw[i], nil)
		}
		return
	}
	s.Failures.Add(1)
	if half := len(texts) / 2; half > 0 && (engine.KindOf(err) == engine.Permanent || errors.Is(err, ErrOwn)) {
		ask(ctx, e, s, texts[:half], answer)
		ask(ctx, e, s, texts[half:], answer)
		return
	}
	for _, text := range texts {
		answer(text, nil, fmt.Errorf("embedding: %w", err))
	}
}
