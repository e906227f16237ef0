package memory

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// Apply implements [notify.Reports].
func (l *Ledger) Apply(ctx context.Context, reports []notify.Report) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return slices.Repeat([]error{err}, len(reports))
	}
	answers, changed := ledger.Report(reports, l.reported(reports))
	responses := map[string]*notify.Responses{}
	for _, user := range ledger.Responding(changed) {
		u := l.user(user)
		known := notify.Responses{}
		if u.responses != nil {
			known = *u.responses // what was loaded of it is not changed
		}
		u.responses = &known
		responses[user] = u.responses
	}
	ledger.Respond(changed, responses)
	for _, d := range changed {
		l.decisions[d.Decision].Delivery = d.Delivery
	}
	return answers
}

// reported returns the decisions that reports name, each once.
func (l *Ledger) reported(reports []notify.Report) (all []ledger.Reported) {
	decisions, events := ledger.NamedBy(reports)
	for _, k := range l.keys {
		if slices.Contains(events, k.EventID) || slices.Contains(events, k.DigestID) {
			decisions = append(decisions, k.DecisionID)
		}
	}
	met := map[uuid.UUID]bool{}
	for _, id := range decisions {
		d := l.decisions[id]
		if d == nil || met[id] {
			continue
		}
		met[id] = true
		all = append(all, ledger.Reported{
			Decision: id, Event: d.Record.EventID, Digest: d.Record.DigestID, Newest: l.keys[d.Record.EventID].DecisionID == id,
			Outcome: d.Record.Outcome, Erased: d.Record.UserID == "", Delivery: d.Delivery, User: d.Record.UserID, Type: d.Record.Type,
		})
	}
	return all
}

// Unreported returns of how many NOWs decided before an instant the delivery is not
// reported, at most [ledger.MaxUnreported]. Those of erased users do not count.
func (l *Ledger) Unreported(ctx context.Context, before engine.Millis) (n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.decisions {
		if d.Delivery.Status == notify.Pending && d.Record.DecidedAt < before && d.Record.UserID != "" {
			n++
		}
	}
	return min(n, ledger.MaxUnreported), ctx.Err()
}
