package processor

import (
	"log/slog"

	"keyfold/engine"
	"keyfold/engine/recent"
	"keyfold/engine/terse"
)

// lacking knows which share of the newest events lacks a product vector.
type lacking struct {
	alike terse.Repeats // of log lines
	share recent.Share
}

// note samples what was counted before an event that lacks its product.
func (l *lacking) note(s *Stats) {
	l.share.Note(s.events, func() int64 { return s.Of(engine.ProductMissing) })
}

// Lacking returns how many events came since the first one of the last quarter of an hour that
// lacked a product vector, and how many lacked one.
func (e *Engine) Lacking() (events, missing int64) {
	return e.lacking.share.Since(e.stats.events(), e.stats.Of(engine.ProductMissing))
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
