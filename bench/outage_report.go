package main

import (
	"fmt"
	"time"

	"keyfold/internal/report"
)

// outageReport is what an outage came to.
type outageReport struct {
	away                  time.Duration
	rate                  float64       // events published per second
	recovery              time.Duration // until the full rate is back, as promised
	sent, missing, dead   int
	before, during, after []outageSample
	back, drained         time.Time
}

const (
	// settling is how long after the store has gone the worker fills its
	// prefetch: memory is to be flat from then on.
	settling = 15 * time.Second
	// flatness and recovery are the promises; recovery is that of profiles.
	flatness = 1.10
	recovery = 15 * time.Second
)

// add adds the figures, and what is not as promised.
func (r *outageReport) add(to *report.Report) {
	settled := r.during
	for len(settled) > 1 && settled[0].at.Sub(r.during[0].at) < settling {
		settled = settled[1:]
	}
	resident := spread(settled, residentOf)
	full, found := r.fullRate()
	last := r.during[len(r.during)-1]
	to.Add("published", "events", float64(r.sent))
	to.Add("rate", "events/s", r.rate)
	to.Add("away", "s", r.away.Round(time.Second).Seconds())
	to.Add("waited at the broker at the return", "events", float64(last.queue))
	to.Add("held at the return", "events", float64(last.held))
	resident.add(to, "resident while away")
	spread(settled, heapOf).add(to, "heap in use while away")
	to.Add("resident before, at most", "MiB", spread(r.before, residentOf).most/mib)
	to.Add("resident after, at most", "MiB", spread(r.after, residentOf).most/mib)
	to.Add("dead letters by the end of the outage", "", float64(r.dead))
	to.Add("missing in the end", "events", float64(r.missing))
	if found {
		to.Add("full rate after", "s", full.Seconds())
	}
	to.Add("backlog gone after", "s", r.drained.Sub(r.back).Seconds())
	to.Expect(resident.most <= flatness*resident.first, "resident memory grew from %.0f to %.0f MiB while the store was away", resident.first/mib, resident.most/mib)
	to.Expect(found && full <= r.recovery, "the full rate was back after %s, promised are %v", within(full, found), r.recovery)
}

// lost is an error where an event is a dead letter or missing.
func (r *outageReport) lost() error {
	if r.dead == 0 && r.missing == 0 {
		return nil
	}
	return fmt.Errorf("%d dead letters, %d events missing", r.dead, r.missing)
}

func within(d time.Duration, found bool) string {
	if !found {
		return "more time than was measured"
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// fullRate returns when, after the store's return, as many events were folded
// as are published, over five seconds at a time.
func (r *outageReport) fullRate() (after time.Duration, found bool) {
	const span = 5
	for i := range r.after {
		if i+span >= len(r.after) {
			break
		}
		from, to := r.after[i], r.after[i+span]
		if (to.done-from.done)/to.at.Sub(from.at).Seconds() >= r.rate {
			return from.at.Sub(r.back), true
		}
	}
	return 0, false
}

func residentOf(s outageSample) float64 { return s.resident }
func heapOf(s outageSample) float64     { return s.heap }

// valueRange is how a figure moved.
type valueRange struct{ first, least, most, last float64 }

func spread(samples []outageSample, of func(outageSample) float64) (e valueRange) {
	for i, s := range samples {
		x := of(s)
		if i == 0 {
			e = valueRange{x, x, x, x}
		}
		e.least, e.most, e.last = min(e.least, x), max(e.most, x), x
	}
	return e
}

const mib = 1 << 20

func (e valueRange) add(to *report.Report, name string) {
	add := to.Of(name)
	add("first", "MiB", e.first/mib)
	add("least", "MiB", e.least/mib)
	add("most", "MiB", e.most/mib)
	add("last", "MiB", e.last/mib)
}
