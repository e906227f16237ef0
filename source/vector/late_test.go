package vector_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
)

// hanging never answers before its own timeout, as openai.Client against a
// server that takes requests and says nothing.
type hanging struct{ embedder }

func (h *hanging) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	select {
	case <-time.After(10 * time.Second): // OPENAI_TIMEOUT
		return nil, &engine.Error{Kind: engine.Transient, Reason: "embedding_timeout", Err: errors.New("no whole answer within 10s")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// While the embedding API is known to be away, a search event costs no attempt,
// also the one that serves as the probe.
func TestProbeOfAHangingEmbedderCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := vector.NewBreaker(vector.DefaultBreakerConfig(), &hanging{})
		must.OK(t, err)
		config := vector.DefaultConfig()
		config.Patience = 3 * time.Second // internal/settings
		p := newGathered(t, config, vector.DefaultBatching(), b, nil)
		for !b.State().Open {
			p.Resolve(t.Context(), []string{"mug"})
			time.Sleep(5 * time.Second)
		}
		time.Sleep(30 * time.Second)
		attempts := 0
		for range 10 { // a lone search event, coming again from its delay queue
			answer := p.Resolve(t.Context(), []string{"mug"})[0]
			if !errors.Is(answer.Err, engine.ErrAway) {
				attempts++
				t.Logf("breaker open %v: %v", b.State().Open, answer.Err)
			}
			time.Sleep(time.Minute)
		}
		if attempts > 0 {
			t.Errorf("%d of 10 tries cost an attempt (6 dead-letter the event) while the embedder was known to be away", attempts)
		}
	})
}

// A failure uses an attempt only where the embedder answers others meanwhile: of a
// call that hangs for everybody no phrase is to blame, however little traffic there
// is and whether the breaker has opened or not.
//
// Promise(away/embedding-breaker): While the embedding API fails for all, searches are parked for a
// day at most with no attempt used; a phrase that fails alone delays no other.
func TestAFailureForEverybodyIsNoPhrasesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := vector.DefaultConfig()
		config.Patience = 3 * time.Second
		p := newGathered(t, config, vector.DefaultBatching(), &slowPhrase{embedder: embedder{embed: lengths}}, nil)
		for range 3 {
			if a := p.Resolve(t.Context(), []string{"slow"})[0]; !errors.Is(a.Err, engine.ErrAway) {
				t.Errorf("while nothing is answered: %v", a.Err)
			}
			time.Sleep(10 * time.Second)
		}
		go func() {
			time.Sleep(time.Second)
			p.Resolve(t.Context(), []string{"other"})
		}()
		if a := p.Resolve(t.Context(), []string{"slow"})[0]; engine.ReasonOf(a.Err) != "embedding_late" {
			t.Errorf("while another is answered: %v", a.Err)
		}
	})
}

// slowPhrase hangs for calls with one phrase.
type slowPhrase struct {
	embedder
	slow hanging
}

func (s *slowPhrase) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	if phrases[0] == "slow" {
		return s.slow.Embed(ctx, phrases)
	}
	return s.embedder.Embed(ctx, phrases)
}
