package broker

import (
	"context"
	"errors"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// Reports returns chunks of delivery reports, which are applied and settled where they
// are handed over: each chunk is one call. Reports are parsed at the time that now
// returns. What does not parse, names no decision or one that was not to send goes to
// the dead letters. A configuration fault leaves reports unsettled, and fault is told of
// it.
func Reports(reports notify.Reports, now func() engine.Millis, fault func(error)) func() consume.Chunk {
	return func() consume.Chunk { return &reportChunk{ledger: reports, now: now, fault: fault} }
}

type reportChunk struct {
	ledger   notify.Reports
	now      func() engine.Millis
	fault    func(error)
	reports  []notify.Report
	settlers []engine.Settler // aligned with reports
}

func (c *reportChunk) Add(o *rabbit.Original, a consume.Arrival) error {
	r, err := notify.ParseReport(o.Body, c.now())
	if err != nil {
		return err
	}
	c.reports, c.settlers = append(c.reports, r), append(c.settlers, a.Settler)
	return nil
}

func (c *reportChunk) Len() int { return len(c.reports) }

// HandOver returns no error: each report is settled.
func (c *reportChunk) HandOver(ctx context.Context) error {
	answers := c.ledger.Apply(ctx, c.reports)
	lost := failpoint.Hit(failpoint.ReportApplied)
	for i, s := range c.settlers {
		if engine.KindOf(answers[i]) == engine.Configuration {
			c.fault(answers[i])
		}
		s.Settle(settlementOf(ctx, errors.Join(answers[i], lost)))
	}
	clear(c.settlers)
	c.reports, c.settlers = c.reports[:0], c.settlers[:0]
	return nil
}

// settlementOf returns what becomes of a report's message. A report that waits for the
// ledger uses no attempt.
func settlementOf(ctx context.Context, err error) engine.Verdict {
	v := engine.Verdict{Outcome: engine.Retry, Err: err}
	switch {
	case err == nil:
		v.Outcome = engine.Decided
	case engine.KindOf(err) == engine.Permanent:
		v.Outcome, v.Reason = engine.Dead, engine.ReasonOf(err)
	case engine.KindOf(err) == engine.Configuration || ctx.Err() != nil:
		v.Outcome = engine.Unsettled
	case errors.Is(err, engine.ErrAway):
		v.Outcome = engine.Park
	}
	return v
}
