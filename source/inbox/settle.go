package inbox

import (
	"cmp"
	"log/slog"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// entry is one delivery's way back: it is the delivery's Settler.
type entry struct {
	inbox *Inbox
	event profile.Event
	seq   int64
	// first is when the event was last known not to be folded; retries carry it.
	first engine.Millis

	// Guarded by inbox.mu.
	retries int
	open    bool // counted in inbox.open
}

// delivery returns the entry's event on its way to the worker.
func (e *entry) delivery(firstSeen engine.Millis) profile.Delivery {
	config := e.inbox.config
	return profile.Delivery{
		Event: e.event, FirstSeen: firstSeen, Attempt: e.retries + 1,
		Last: e.retries >= config.MaxRetries, RetryDelay: config.delay(e.retries), Settler: engine.Once(e),
	}
}

// Settle takes the verdict. It never blocks on the store; see [marks] for what
// is certain when it returns.
func (e *entry) Settle(v engine.Verdict) {
	in := e.inbox
	if v.Outcome == engine.Retry {
		if in.again(e, v.AbsentAt) {
			return
		}
		v = in.exhausted(e, v)
	}
	if v.Outcome == engine.Park {
		in.park(e, v.AbsentAt)
		return
	}
	state, final := stateOf(v.Outcome)
	if !final {
		in.mu.Lock()
		in.release(e)
		in.mu.Unlock()
		return
	}
	m := mark{seq: e.seq, state: state}
	if state == StateDead {
		m.reason = cmp.Or(v.Reason, engine.ReasonOf(v.Err))
		m.detail = text(v.Err)
	}
	in.mark(e, m)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// exhausted is the verdict on an event that used up its retries.
func (in *Inbox) exhausted(e *entry, last engine.Verdict) engine.Verdict {
	in.ports.Log.Warn("event dead-lettered: retries exhausted",
		slog.Int("user_id", int(e.event.UserID)),
		slog.String("message_id", e.event.MessageID),
		slog.String("event_type", e.event.Type.String()),
		slog.Int("attempt", in.config.MaxRetries+1),
		slog.Any("error", last.Err), slog.String("hint", "cure the error and send the event again under a new id"))
	return engine.Verdict{Outcome: engine.Dead, Reason: engine.ReasonRetriesExhausted, Err: last.Err}
}
