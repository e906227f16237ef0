package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/sink/ledger"
)

// notifySummary is what a run amounts to. Every line read is in exactly one of
// decided, known and refused.
type notifySummary struct {
	Read      int64         `json:"read"`
	Decided   int64         `json:"decided"` // events of which this run made the first decision
	Known     int64         `json:"known"`   // events that were decided before, or stand twice
	Refused   int64         `json:"refused"`
	Decisions int64         `json:"decisions"`  // that this run made: more than events, since deferred ones are decided again
	HandedOut int64         `json:"handed_out"` // messages to the senders
	Users     int64         `json:"users"`      // in the folder
	Seconds   float64       `json:"seconds"`
	First     []refusedLine `json:"first_refused,omitempty"`
	Matrix    []matrixRow   `json:"matrix"` // of all decisions of the folder
	Examples  []example     `json:"examples,omitempty"`
}

// matrixRow is how many decisions of a type have an outcome for a reason.
type matrixRow struct {
	Type    notify.EventType `json:"event_type"`
	Outcome notify.Outcome   `json:"outcome"`
	Reason  string           `json:"reason"`
	Count   int64            `json:"count"`
}

// example is a decision with its explanation.
type example struct {
	EventID    uuid.UUID `json:"event_id"`
	DecisionID uuid.UUID `json:"decision_id"`
	Lines      []string  `json:"explanation"`
}

// summary reads what the folder holds after the run.
func (r *notifyReplay) summary(took time.Duration) (*notifySummary, error) {
	stats := r.notifier.Processor.Stats()
	s := &notifySummary{
		Read: r.read, Known: r.known, Refused: r.refused + r.faults, First: append(r.first, r.firstOf...),
		HandedOut: stats.Dispatched.Load(), Seconds: took.Round(time.Millisecond).Seconds(),
	}
	s.Decided = s.Read - s.Known - s.Refused
	for o := notify.Now; o <= notify.Never; o++ {
		s.Decisions += stats.Decisions.Of(o)
	}
	counts, err := r.ledger.Counts(r.ctx, ledger.Span{})
	if err != nil {
		return nil, err
	}
	for _, c := range counts {
		s.Matrix = append(s.Matrix, matrixRow{c.Type, c.Outcome, c.Reason, c.N})
	}
	slices.SortFunc(s.Matrix, func(a, b matrixRow) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	if s.Users, err = r.ledger.Users(r.ctx); err != nil {
		return nil, err
	}
	s.Examples, err = examples(r.ctx, r.notifyRuntime)
	return s, err
}

// interesting are reasons that a newcomer wants explained: one decision of each of
// the first three that occur.
var interesting = []string{
	notify.ReasonCap1H, notify.ReasonNearDuplicate, notify.ReasonQuietHours, notify.ReasonCooldown, notify.ReasonCap5M,
	notify.ReasonDuplicate, notify.ReasonDigested, notify.ReasonExpiresFirst, notify.ReasonScoreHigh,
}

// examples explains three decisions.
func examples(ctx context.Context, n *notifyRuntime) ([]example, error) {
	const looked = 5000
	found := map[string]notify.Decided{}
	for d, err := range n.ledger.Records(ctx, ledger.Filter{Limit: looked}) {
		if err != nil {
			return nil, err
		}
		if d.Event == nil || len(d.Record.Reasons) == 0 {
			continue
		}
		reason := d.Record.Reasons[0]
		if _, ok := found[reason]; !ok && slices.Contains(interesting, reason) {
			found[reason] = d
		}
		if have(found) {
			break
		}
	}
	var all []example
	for _, reason := range interesting {
		if d, ok := found[reason]; ok && len(all) < 3 {
			d.Delivery = notify.Delivery{} // nothing reports in a replay
			all = append(all, example{d.Record.EventID, d.Record.DecisionID, notify.Explain(&d).Lines})
		}
	}
	return all, nil
}

// have reports whether the most interesting reasons are found.
func have(found map[string]notify.Decided) bool {
	for _, reason := range interesting[:3] {
		if _, ok := found[reason]; !ok {
			return false
		}
	}
	return true
}

func (s *notifySummary) emit(a *app, c *notifyRunCmd) error {
	return a.Emit(s, func(w *cli.Text) { s.text(w, a, c) })
}

func (s *notifySummary) text(w *cli.Text, a *app, c *notifyRunCmd) {
	if s.Known > 0 && s.Decisions == 0 && s.Refused == 0 {
		w.Line("all %s were decided by an earlier run: nothing to do. %s holds these decisions:", cli.Count(s.Known, "notification"), a.data)
	} else {
		w.Line("%s for %s: %s in %.1f s.", cli.Count(s.Decided, "notification"), cli.Count(s.Users, "user"), cli.Count(s.Decisions, "decision"), s.Seconds)
	}
	w.Line("")
	w.Row("read", s.Read, "")
	w.Row("decided", s.Decided, "")
	if s.Known > 0 {
		w.Row("known", s.Known, "posted more than once, or decided by an earlier run: the first decision stands")
	}
	if s.Refused > 0 {
		w.Row("refused", s.Refused, "not a notification, or under the event_id of another user: see the lines above")
	}
	switch {
	case c.Senders != (senders{}):
		w.Row("handed out", s.HandedOut, "messages to the senders: a digest is one")
	case s.HandedOut > 0:
		w.Row("messages", s.HandedOut, "for senders, had one been named: a digest is one")
	}
	s.matrix(w)
	for i, e := range s.Examples {
		w.Line("")
		w.Line("Example %d (%s)", i+1, e.DecisionID)
		for _, line := range e.Lines {
			w.Line("  %s", cli.Printable(line))
		}
	}
	s.next(w, a, c)
}

// matrix prints decisions by type, outcome and reason.
func (s *notifySummary) matrix(w *cli.Text) {
	w.Line("")
	w.Line("  %-9s %9s %9s %9s", "decisions", "NOW", "LATER", "NEVER")
	total := map[notify.Outcome]int64{}
	for _, kind := range notify.EventTypes {
		sums, reasons := map[notify.Outcome]int64{}, map[notify.Outcome]map[string]int64{}
		for _, row := range s.Matrix {
			if row.Type == kind {
				sums[row.Outcome] += row.Count
				total[row.Outcome] += row.Count
				if reasons[row.Outcome] == nil {
					reasons[row.Outcome] = map[string]int64{}
				}
				reasons[row.Outcome][row.Reason] += row.Count
			}
		}
		if len(sums) == 0 {
			continue
		}
		w.Line("  %-9s %9s %9s %9s", kind, cli.Number(sums[notify.Now]), cli.Number(sums[notify.Later]), cli.Number(sums[notify.Never]))
		for o := notify.Now; o <= notify.Never; o++ {
			if sums[o] > 0 {
				w.Line("    %-5s  %s", o, topReasons(reasons[o]))
			}
		}
	}
	w.Line("  %-9s %9s %9s %9s  a LATER is decided again, and ends as NOW or NEVER", "all", cli.Number(total[notify.Now]), cli.Number(total[notify.Later]), cli.Number(total[notify.Never]))
}

// topReasons lists the most frequent reasons.
func topReasons(by map[string]int64) string {
	const shown = 4
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(shown, len(names))] {
		parts = append(parts, fmt.Sprintf("%s %s", name, cli.Number(by[name])))
	}
	if len(names) > shown {
		parts = append(parts, "...")
	}
	return strings.Join(parts, ", ")
}

// next says what to try next.
func (s *notifySummary) next(w *cli.Text, a *app, c *notifyRunCmd) {
	if c.Events != "" {
		return
	}
	program := a.command() + " notify"
	w.Line("")
	w.Line("Try next:")
	if len(s.Examples) > 0 {
		w.Line("  %s explain %s", program, s.Examples[0].EventID)
	}
	w.Line("  %s rules show > rules.json       change it, then: %s rules test rules.json", program, program)
	w.Line("  %s --events FILE.ndjson --rules rules.json --send-to OUT.ndjson   (with --data OTHER-FOLDER to start afresh)", program)
	// What waited was decided at its time, which may be tomorrow: not the folder to serve on.
	w.Line("  keyfold-lite --data NEW-FOLDER notify serve       and from another terminal:")
	w.Line(`  curl -H 'Content-Type: application/json' http://127.0.0.1:7080/v1/notifications -d '{"user_id":"17","event_type":"UPDATE","title":"Order 1001 shipped","source":"orders","channel":["push"],"timestamp":"%s"}'`,
		time.Now().UTC().Format(time.RFC3339))
}
