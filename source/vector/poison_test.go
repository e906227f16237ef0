package vector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
)

// poisoned is an embedder that fails every call with the phrase "poison".
type poisoned struct{ faulty }

func (p *poisoned) Embed(ctx context.Context, phrases []string) ([][]float32, error) {
	vectors, err := p.faulty.Embed(ctx, phrases)
	if err == nil && slices.Contains(phrases, "poison") {
		err = errDown
	}
	return vectors, err
}

// A phrase that always fails opens the breaker for no other one, alone and beside others,
// and its failure is its own. The patient caller does not ask again once that is judged.
//
// Promise(away/embedding-breaker)
func TestOnePhraseOpensNoBreaker(t *testing.T) {
	for _, mate := range []string{"", "mug", "a new one"} {
		synctest.Test(t, func(t *testing.T) {
			p := &poisoned{}
			b := newBreaker(t, p, nil)
			patient, err := vector.NewRetrying(vector.RetryingConfig{Attempts: 8, Pause: 100 * time.Millisecond}, b)
			must.OK(t, err)
			for i := range 50 {
				phrases := []string{"poison"}
				if mate == "a new one" {
					phrases = append(phrases, fmt.Sprint("mug ", i))
				} else if mate != "" {
					phrases = append(phrases, mate)
				}
				before := p.calls
				_, err := patient.Embed(t.Context(), phrases)
				if !errors.Is(err, vector.ErrOwn) || !errors.Is(err, errDown) || errors.Is(err, engine.ErrAway) || engine.KindOf(err) != engine.Transient {
					t.Fatalf("round %d: %v", i, err)
				}
				if asked := p.calls - before; asked != 6 {
					t.Fatalf("round %d: %d calls", i, asked)
				}
				if s := b.State(); s.Open || s.Opened > 0 {
					t.Fatalf("round %d: %+v", i, s)
				}
			}
		})
	}
}

// Failures of different phrases open the breaker, without a probe.
//
// Promise(away/embedding-breaker)
func TestDifferentPhrasesOpenTheBreaker(t *testing.T) {
	f := &faulty{err: errDown}
	b := newBreaker(t, f, nil)
	for i := range 5 {
		if b.State().Open {
			t.Fatalf("open after %d", i)
		}
		_, _ = b.Embed(t.Context(), []string{fmt.Sprint("phrase ", i)})
	}
	if !b.State().Open || f.calls != 5 {
		t.Errorf("%d calls, %+v", f.calls, b.State())
	}
}

// The phrases that share a request with one that always fails get their vectors, and only
// the failing one uses an attempt, be it alone.
//
// Promise(away/embedding-breaker)
func TestAFailingPhraseSparesItsRequestMates(t *testing.T) {
	for _, phrases := range [][]string{{"a", "bb", "ccc", "poison", "dddd", "eeeee"}, {"poison"}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, &poisoned{}, nil)
			patient, err := vector.NewRetrying(vector.RetryingConfig{Attempts: 5, Pause: 100 * time.Millisecond}, b)
			must.OK(t, err)
			p := newGathered(t, vector.DefaultConfig(), vector.DefaultBatching(), patient, nil)
			for i, r := range p.Resolve(t.Context(), phrases) {
				if own := phrases[i] == "poison"; own != (r.Err != nil) || own && (errors.Is(r.Err, engine.ErrAway) || engine.KindOf(r.Err) != engine.Transient) {
					t.Errorf("%s of %v: %v", phrases[i], phrases, r.Err)
				}
			}
			if s := b.State(); s.Opened > 0 {
				t.Errorf("%v: %+v", phrases, s)
			}
		})
	}
}

// After an outage a phrase that always fails keeps the breaker open for no other one, also
// where it comes first each time: its parked event is the oldest.
//
// Promise(away/embedding-breaker)
func TestAFailingPhraseKeepsNoBreakerOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &poisoned{}
		b := newBreaker(t, p, nil)
		p.set(errDown)
		for i := range 5 {
			_, _ = b.Embed(t.Context(), []string{fmt.Sprint("phrase ", i)})
		}
		time.Sleep(time.Minute)
		before := p.calls
		if _, err := b.Embed(t.Context(), []string{"poison", "mug"}); !errors.Is(err, engine.ErrAway) || p.calls != before+1 {
			t.Fatalf("while it is away: %v, %d calls", err, p.calls-before)
		}
		p.set(nil)
		time.Sleep(time.Minute)
		if _, err := b.Embed(t.Context(), []string{"poison", "mug"}); err == nil || errors.Is(err, engine.ErrAway) {
			t.Errorf("the failing phrase is answered with %v", err)
		}
		if _, err := b.Embed(t.Context(), []string{"mug"}); err != nil || b.State().Open {
			t.Errorf("another one: %v, %+v", err, b.State())
		}
	})
}
