package processor

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine/notify"
)

// logVerdict logs what was not decided, once each, never a text.
func (p *Processor) logVerdict(w *work, d *Delivery, v *Verdict) {
	level := slog.LevelWarn
	var text, hint string
	switch v.Outcome {
	case Dead:
		text, hint = "notification refused: it can never be decided", "the dead letter has the reason; correct what the error names"
	case Retry:
		if d.Last {
			return
		}
		text, hint = "notification not decided, or decided and not handed over: it is tried again", "nothing is to be done for one; if many are, cure the error"
	case Park:
		level, text = slog.LevelDebug, "notification parked: the ledger cannot write it now"
	case Known:
		level, text = slog.LevelDebug, "notification was decided before"
	default:
		return
	}
	if !p.ports.Log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("user_id", w.user)}
	if items := d.items(); len(items) > 0 {
		e := items[0].Event
		attrs = append(attrs, slog.String("event_id", e.ID.String()), slog.String("event_type", e.Type.String()), slog.Int("turn", items[0].Turn.Number))
	}
	if d.Attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", d.Attempt))
	}
	if v.Outcome == Retry && d.RetryDelay > 0 {
		attrs = append(attrs, slog.Duration("delay", d.RetryDelay))
	}
	if v.Err != nil {
		attrs = append(attrs, slog.Any("error", v.Err))
	}
	if hint != "" {
		attrs = append(attrs, slog.String("hint", hint))
	}
	p.ports.Log.LogAttrs(context.Background(), level, text, attrs...)
}

// logConflict logs what settles itself.
func (p *Processor) logConflict(w *work) {
	p.ports.Log.LogAttrs(context.Background(), slog.LevelDebug, "version conflict: the user's notifications are decided again",
		slog.String("user_id", w.user), slog.Int("messages", len(w.deliveries)))
}

func (p *Processor) logUnreadable(w *work, err error) {
	p.ports.Log.LogAttrs(context.Background(), slog.LevelError, "what is stored of a user cannot be read: the user's notifications wait",
		slog.String("user_id", w.user), slog.Int("messages", len(w.deliveries)), slog.Any("error", err),
		slog.String("hint", "restore the user's rows of notify_users and notify_preferences from a backup, or erase the user; other users go on"))
}

func (p *Processor) logLedger(err error, pause time.Duration) {
	p.ports.Log.LogAttrs(context.Background(), slog.LevelWarn, "ledger failed: the notifications wait",
		slog.Duration("retry_in", pause), slog.Any("error", err),
		slog.String("hint", "check that the ledger runs and takes writes; they are decided once it does"))
}

func (p *Processor) logRefused(d *notify.Dispatch, err error) {
	p.ports.Log.LogAttrs(context.Background(), slog.LevelWarn, "hand-over failed: the decision is stored, and a sweep hands it over again",
		slog.String("dispatch_id", d.ID.String()), slog.Int("events", len(d.Events)), slog.Any("error", err),
		slog.String("hint", "check that the receiver of dispatches takes them"))
}

func (p *Processor) logExpired(r *notify.Record) {
	p.ports.Log.LogAttrs(context.Background(), slog.LevelInfo, "notification expired before its hand-over: it is not sent",
		slog.String("user_id", r.UserID), slog.String("event_id", r.EventID.String()), slog.String("decision_id", r.DecisionID.String()))
}
