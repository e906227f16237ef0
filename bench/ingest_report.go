package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"keyfold/engine/profile"
	"keyfold/proof/oracle"
	"keyfold/proof/stack"
	"keyfold/source/outbox"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// promisedAnswer is how soon 99 of 100 requests are to be answered.
const promisedAnswer = 200 * time.Millisecond

// ingestResult is what became of what was posted.
type ingestResult struct {
	taken, rows, unmarked, failed int64
	lost, doubled                 int64
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

func (r *ingestRun) report(w io.Writer, c *ingestCmd, result ingestResult) error {
	fmt.Fprintf(w, "posted     %d requests at %s, one event each, to ingest --relay on %s; the generator was at most %v late\n",
		len(r.bodies), c.Rate, c.Database, r.late.Round(time.Millisecond))
	all := newLatencies()
	for i, phase := range r.phases {
		all.Merge(r.latency[i].Histogram)
		if r.latency[i].TotalCount() > 0 {
			fmt.Fprintf(w, "%-10s %s; answers %v\n", phase.name, quantiles(r.latency[i]), r.answers[i])
		}
	}
	fmt.Fprintf(w, "%-10s %s\n", "all", quantiles(all))
	fmt.Fprintf(w, "rows       %d for %d events taken, %d not marked, %d set aside; the oldest waited for %.1f s, none after %.1f s with the broker\n",
		result.rows, result.taken, result.unmarked, result.failed, r.oldest.Seconds(), r.resumed.Seconds())
	fmt.Fprintf(w, "profiles   %d events lost, %d doubled; equal to the oracle: %t\n", result.lost, result.doubled, result.wrong == nil)
	perEvent := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(max(1, len(r.bodies))) }
	fmt.Fprintf(w, "processor  ingest --relay %.2f ms per event, work %.2f ms\n", perEvent(r.Used[0]), perEvent(r.Used[1]))
	var err error
	if p99 := time.Duration(all.ValueAtQuantile(99)) * time.Microsecond; p99 > promisedAnswer {
		err = fmt.Errorf("p99 is %v, promised are %v", p99.Round(time.Millisecond), promisedAnswer)
	}
	if result.lost+result.doubled+result.unmarked+result.failed > 0 || result.rows < result.taken || result.taken < int64(len(r.bodies)) {
		err = errors.Join(err, errors.New("something was refused, lost, doubled or not marked"))
	}
	return errors.Join(err, result.wrong)
}

func quantiles(l latencies) string {
	ms := func(q float64) float64 { return 1000 * l.seconds(q) }
	return fmt.Sprintf("p50 %.1f, p95 %.1f, p99 %.1f, p99.9 %.1f, max %.1f ms", ms(50), ms(95), ms(99), ms(99.9), ms(100))
}
