package processor

import (
	"log/slog"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/terse"
)

// lacking knows which share of the newest events lacks a product vector, by what was counted
// when such events came, at most once a minute. Where none comes it costs nothing.
type lacking struct {
	alike terse.Repeats // of log lines

	mu      sync.Mutex
	samples []sample // of the newest quarter of an hour, the oldest first
}

type sample struct {
	at              engine.Millis
	events, missing int64
}

const (
	lackingSpan = 15 * time.Minute // as the alert looks back
	lackingStep = time.Minute
)

// note samples what was counted before an event that lacks its product.
func (l *lacking) note(s *Stats) {
	now := engine.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n > 0 && now-l.samples[n-1].at < engine.Millis(lackingStep.Milliseconds()) {
		return
	}
	l.prune(now)
	l.samples = append(l.samples, sample{now, s.events(), s.Of(engine.ProductMissing)})
}

func (l *lacking) prune(now engine.Millis) {
	for len(l.samples) > 0 && now-l.samples[0].at > engine.Millis(lackingSpan.Milliseconds()) {
		l.samples = l.samples[1:]
	}
}

// Lacking returns how many events came since the first one of the last quarter of an hour that
// lacked a product vector, and how many lacked one.
func (e *Engine) Lacking() (events, missing int64) {
	l := &e.lacking
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prune(engine.Now()); len(l.samples) == 0 {
		return 0, 0
	}
	return e.stats.events() - l.samples[0].events, e.stats.Of(engine.ProductMissing) - l.samples[0].missing
}

// Close logs what was gathered for the log.
func (e *Engine) Close() { e.lacking.alike.Close() }

// logMissing logs events that lack a product vector: the newest one of a minute, with their number.
func (e *Engine) logMissing(attrs []slog.Attr) {
	e.lacking.alike.Add("missing", func(n int) {
		if n > 1 {
			attrs = append(attrs, slog.Int("count", n))
		}
		e.log(slog.LevelWarn, "event skipped: its product is unknown", append(attrs, slog.String("hint", "import the product if it exists: "+importCommand.String())))
	})
}
