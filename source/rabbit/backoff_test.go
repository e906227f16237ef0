package rabbit

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// A publisher that is stopped says why it could not connect, but not what kept an
// earlier connection that was made in the end.
func TestRefusalOfAPublisherThatIsStopped(t *testing.T) {
	refusal := errors.New("connection refused")
	for _, c := range []struct {
		retry time.Duration
		told  bool
	}{{time.Hour, true}, {-time.Hour, false}} {
		told := 0
		for range 100 { // one that has ended may also be seen before the wait
			p := NewPublisher("amqp://guest:guest@127.0.0.1:1/", Identity{Role: "relay"}, "publisher", Timing{}, slog.New(slog.DiscardHandler))
			p.retry, p.refusal = time.Now().Add(c.retry), refusal
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if _, err := p.link(ctx); errors.Is(err, refusal) {
				told++
			}
		}
		if (told > 0) != c.told {
			t.Errorf("retry in %v: told %d times", c.retry, told)
		}
	}
}

// However long the broker was away, the next attempt comes within seconds.
func TestConnectionsAreTriedEachFewSeconds(t *testing.T) {
	timing := Timing{}.OrDefaults()
	pauses := backoff.Backoff{Min: timing.BackoffMin, Max: timing.BackoffMax}
	for range 100 {
		if pause := pauses.Next(); pause > 5*time.Second {
			t.Fatalf("a pause of %v", pause)
		}
	}
}

func TestPublisherBacksOff(t *testing.T) {
	p := NewPublisher("amqp://guest:guest@127.0.0.1:1/", ThisProcess("test"), "publisher",
		Timing{BackoffMin: time.Hour, BackoffMax: time.Hour}, slog.New(slog.DiscardHandler))
	m := []Message{{ID: "a"}, {ID: "b"}}
	for i, err := range p.Publish(t.Context(), m) {
		if err == nil || engine.KindOf(err) != engine.Transient {
			t.Errorf("message %d: %v", i, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := errors.Join(p.Publish(ctx, m)...); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no wait before the next attempt: %v", err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(p.Publish(t.Context(), m)...); !errors.Is(err, errPublisherClosed) {
		t.Error(err)
	}
}
