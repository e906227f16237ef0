package processor

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// A profile whose last event is this old is worth a look (days).
const (
	staleDays   = 90
	rebuildDays = 180
)

// logVerdict logs skips, dead letters, retries and parked events, once each, never a
// payload.
func (e *Engine) logVerdict(d *profile.Delivery, v engine.Verdict) {
	level := slog.LevelWarn
	var text, hint string
	switch v.Outcome {
	case engine.ProductMissing: // one line for all of a minute
	case engine.UserErased:
		level, text = slog.LevelInfo, "event skipped: its user was erased"
	case engine.Duplicate:
		level, text = slog.LevelDebug, "event skipped: it was folded before"
	case engine.Dead:
		text, hint = "event dead-lettered", "the dead letter has the reason and the event, to be sent again once the error is cured"
	case engine.Retry:
		if d.Last {
			return
		}
		text, hint = "event retry scheduled", "it is tried again by itself; if many are, cure the error"
	case engine.Park: // while a dependency is down, every event of its kind
		level, text = slog.LevelDebug, "event parked: a dependency is down or its profile has no room"
	default:
		return
	}
	if !e.ports.Log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.Int("user_id", int(d.Event.UserID)),
		slog.String("message_id", d.Event.MessageID),
		slog.String("event_type", d.Event.Type.String()),
	}
	attrs = append(attrs, d.Trace.LogAttrs()...)
	if d.Event.ProductID != 0 {
		attrs = append(attrs, slog.Int("product_id", int(d.Event.ProductID)))
	}
	if d.Attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", d.Attempt))
	}
	if v.Outcome == engine.Retry && d.RetryDelay > 0 {
		attrs = append(attrs, slog.Duration("delay", d.RetryDelay))
	}
	if v.Reason != "" {
		attrs = append(attrs, slog.String("reason", v.Reason))
	}
	if v.Err != nil {
		attrs = append(attrs, slog.Any("error", v.Err))
	}
	if v.Outcome == engine.ProductMissing {
		e.logMissing(attrs)
		return
	}
	if hint != "" {
		attrs = append(attrs, slog.String("hint", hint))
	}
	e.log(level, text, attrs)
}

func (e *Engine) log(level slog.Level, text string, attrs []slog.Attr) {
	e.ports.Log.LogAttrs(context.Background(), level, text, attrs...)
}

func (e *Engine) logWritten(w *work, began engine.Millis) {
	if !e.ports.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	e.ports.Log.LogAttrs(context.Background(), slog.LevelDebug, "embedding_updated",
		slog.Int("user_id", int(w.user)),
		slog.Int("events", len(w.events)),
		slog.Int64("duration_ms", int64(engine.Now()-began)))
}

// logConflict logs what settles itself, and comes for many users at once where workers
// change: the summary counts it.
func (e *Engine) logConflict(w *work) {
	if len(w.events) == 0 { // its marks alone were to be written
		return
	}
	newest := &w.events[len(w.events)-1]
	attrs := append([]slog.Attr{
		slog.Int("user_id", int(w.user)), slog.Int("events", len(w.events)),
		slog.String("message_id", newest.Event.MessageID), slog.String("event_type", newest.Event.Type.String()),
		slog.Int("attempt", newest.Attempt),
	}, newest.Trace.LogAttrs()...)
	e.ports.Log.LogAttrs(context.Background(), slog.LevelDebug, "version conflict: the window is folded again", attrs...)
}

// logStore logs a failed call. Where a breaker judges the calls it logs an outage, and
// this would be a second line of one fault.
func (e *Engine) logStore(err error, pause time.Duration) {
	level := slog.LevelWarn
	if e.hasBreaker {
		level = slog.LevelDebug
	}
	e.ports.Log.LogAttrs(context.Background(), level, "store failed: the window is held",
		slog.Duration("retry_in", pause), slog.Any("error", err),
		slog.String("hint", "check that the store runs and takes writes; the window is written once it does"))
}

func (e *Engine) logUnfit(w *work) {
	e.ports.Log.LogAttrs(context.Background(), slog.LevelWarn,
		"profile unusable: its user's events are parked",
		slog.Int("user_id", int(w.user)), slog.Int("events", len(w.events)),
		slog.String("hint", "do what the error says; parked events use no attempt, and other users go on"), slog.Any("error", w.unfit))
}

// noteGap counts folds that bridge a long silence, also within the first batch of
// a user. In mass they are exact; a unit history has drifted from its events by
// then.
func (e *Engine) noteGap(w *work, steps []profile.Step) {
	newest, days := steps[0].At, 0.0
	if w.profile != nil {
		newest = w.profile.Updated
	}
	for i := range steps {
		days = max(days, newest.Days(steps[i].At))
		newest = max(newest, steps[i].At)
	}
	if days <= staleDays {
		return
	}
	e.stats.Stale.Add(1)
	hint := "nothing is to be done: the stored vector was decayed over this time"
	if days > rebuildDays {
		hint = rebuildCommand.String() + " computes it again from its history"
	}
	e.ports.Log.LogAttrs(context.Background(), slog.LevelWarn, "profile was idle for more than 90 days",
		slog.Int("user_id", int(w.user)), slog.Float64("days", days), slog.String("hint", hint))
}
