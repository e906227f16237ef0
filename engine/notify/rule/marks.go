package rule

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// freeWindow is the longest duplicate window of a type that neither caps nor a pause
// hold, of which more than [notify.MaxMarks] are not expected.
const freeWindow = engine.Millis(time.Hour / time.Millisecond)

// marks warns of types of which a user may get more within the duplicate window than
// there are marks: a repeat of one before them is not found.
func (r *reader) marks(n *node, p *notify.Policy) {
	for _, t := range notify.EventTypes {
		policy := &p.Types[t]
		if policy.DuplicateWindow == 0 {
			continue
		}
		most, held := mostWithin(policy, p.Caps)
		switch at := windowOf(n, t); {
		case !held && policy.DuplicateWindow > freeWindow:
			r.warn(at, "no cap and no pause holds %s: a repeat is found among the newest %d within its duplicate_window only: shorten it to %v at most, or set a cooldown",
				t, notify.MaxMarks, duration(freeWindow))
		case held && most > notify.MaxMarks:
			r.warn(at, "up to %d %s may be sent to a user within its duplicate_window of %v, and a repeat is found among the newest %d only: shorten it, lower the caps or raise the cooldown",
				most, t, duration(policy.DuplicateWindow), notify.MaxMarks)
		}
	}
}

// mostWithin returns how many of a type a user may get within its duplicate window; held
// is false where nothing bounds them.
func mostWithin(p *notify.TypePolicy, caps notify.Caps) (most int, held bool) {
	bound := func(n int) {
		if !held || n < most {
			most, held = n, true
		}
	}
	if p.Capped {
		for i, window := range notify.Windows {
			bound(caps[i] * int((p.DuplicateWindow+window-1)/window))
		}
	}
	if p.Cooldown > 0 {
		bound(int(p.DuplicateWindow/p.Cooldown) + 1)
	}
	return most, held
}

// windowOf returns the value that says the duplicate window of a type, or the nearest one
// around it: what the document leaves out has the shipped set's value.
func windowOf(policy *node, t notify.EventType) *node {
	at := policy
	for _, name := range []string{"types", t.String(), "duplicate_window"} {
		next := at.get(name)
		if next == nil {
			return at
		}
		at = next
	}
	return at
}

func duration(d engine.Millis) time.Duration { return time.Duration(d) * time.Millisecond }
