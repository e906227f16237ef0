package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/proof/oracle"
	"keyfold/proof/stack"
	"keyfold/source/outbox"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// promisedAnswer is how soon 999 of 1,000 requests are to be answered.
const promisedAnswer = 200 * time.Millisecond

// ingestResult is what became of what was posted.
type ingestResult struct {
	taken, rows, unmarked, failed int64
	lost, doubled, repeats        int64
	wrong                         error // profiles that are not the oracle's
}

// settle waits until every row is marked and folded, for three minutes at most,
// and compares the profiles with the oracle.
func (r *ingestRun) settle(ctx context.Context) (result ingestResult, err error) {
	laws := profile.DefaultConfig()
	laws.Model = vector.HashModel
	expected, err := oracle.New(laws, sample.Products())
	if err != nil {
		return result, err
	}
	for i, body := range r.bodies {
		if r.taken[i] {
			result.taken++
			if err := expected.Add(body); err != nil {
				return result, err
			}
		}
	}
	result.repeats = int64(expected.Repeated)
	end := time.Now().Add(3 * time.Minute)
	err = stack.Poll(ctx, time.Second, func() (bool, error) {
		err := r.read(ctx, &result, expected)
		return result.unmarked == 0 && result.lost == 0 || time.Now().After(end), err
	})
	return result, err
}

// read counts rows, and events that profiles have too few or too many of.
func (r *ingestRun) read(ctx context.Context, result *ingestResult, expected *oracle.Oracle) (err error) {
	if result.rows, err = r.db.Count(ctx, outbox.Filter{}); err != nil {
		return err
	}
	backlog, err := r.db.Backlog(ctx, 0)
	if err != nil {
		return err
	}
	result.unmarked, result.failed = backlog.Unsent, backlog.Failed
	profiles, err := r.ReadProfiles(ctx)
	if err != nil {
		return err
	}
	result.lost, result.doubled = 0, 0
	for id, user := range expected.Users {
		var got int64
		if p := profiles[id]; p != nil {
			got = p.EventCount
		}
		result.lost += max(0, user.Events-got)
		result.doubled += max(0, got-user.Events)
	}
	result.wrong = expected.CheckAll(profiles)
	return nil
}

func (r *ingestRun) report(to *report.Report, result ingestResult) error {
	all := report.NewLatencies()
	for i, phase := range r.phases {
		all.Merge(r.latency[i].Histogram)
		if r.latency[i].TotalCount() > 0 {
			to.Latency("answer "+phase.name, r.latency[i])
		}
		for _, answer := range slices.Sorted(maps.Keys(r.answers[i])) {
			to.Add("answers "+answer+" "+phase.name, "", float64(r.answers[i][answer]))
		}
	}
	to.Latency("answer", all)
	to.Add("posted", "requests of one event", float64(len(r.bodies)))
	to.Add("generator late, at most", "ms", 1000*r.late.Seconds())
	to.Add("taken", "events", float64(result.taken))
	to.Add("posted again", "events", float64(result.repeats))
	to.Add("rows", "", float64(result.rows))
	to.Add("rows not marked", "", float64(result.unmarked))
	to.Add("rows set aside", "", float64(result.failed))
	to.Add("longest wait of a row", "s", r.oldest.Seconds())
	to.Add("backlog gone after the broker's return", "s", r.resumed.Seconds())
	to.Add("lost", "events", float64(result.lost))
	to.Add("doubled", "events", float64(result.doubled))
	perEvent := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(max(1, len(r.bodies))) }
	to.Add("CPU of ingest --relay", "ms an event", perEvent(r.Used[0]))
	to.Add("CPU of work", "ms an event", perEvent(r.Used[1]))

	to.Judge(report.SC001, all.Seconds(99.9) < promisedAnswer.Seconds(), "p99.9 %s, at most %s", report.Span(all.Seconds(99.9)), report.Span(all.Seconds(100)))
	if r.phases[away].span > 0 {
		to.Judge(report.SC005, result.lost == 0, "%d of %d events lost; the broker was killed and away for %v", result.lost, result.taken, r.phases[away].span)
	}
	if result.repeats > 0 {
		to.Judge(report.SC007, result.doubled == 0 && result.wrong == nil, "%d events posted again, %d folded twice; profiles equal to the oracle's: %t", result.repeats, result.doubled, result.wrong == nil)
	}
	err := result.wrong
	if result.lost+result.doubled+result.unmarked+result.failed > 0 || result.rows+result.repeats < result.taken || result.taken < int64(len(r.bodies)) {
		err = errors.Join(err, errors.New("something was refused, lost, doubled or not marked"))
	}
	return err
}
