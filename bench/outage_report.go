package main

import (
	"errors"
	"fmt"
	"io"
	"time"
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

// print writes the figures and returns what is not as promised.
func (r *outageReport) print(w io.Writer) error {
	settled := r.during
	for len(settled) > 1 && settled[0].at.Sub(r.during[0].at) < settling {
		settled = settled[1:]
	}
	resident, heap := spread(settled, residentOf), spread(settled, heapOf)
	peak := spread(r.before, residentOf).most
	full, found := r.fullRate()
	last := r.during[len(r.during)-1]
	_, err := fmt.Fprintf(w, `published  %d events at %.0f/s; the store was away for %v
queue      %d messages waited at the broker when it came back, %d events were held
memory     resident %s while the store was away (%s after it), before that at most %.0f MiB; heap in use %s
dead       %d letters by the end of the outage, %d events missing in the end
recovered  full rate after %s, backlog gone after %.0f s
`,
		r.sent, r.rate, r.away.Round(time.Second), last.queue, last.held, resident,
		fmt.Sprintf("at most %.0f MiB", spread(r.after, residentOf).most/(1<<20)), peak/(1<<20), heap,
		r.dead, r.missing, within(full, found), r.drained.Sub(r.back).Seconds())
	if resident.most > flatness*resident.first {
		err = errors.Join(err, fmt.Errorf("resident memory grew from %.0f to %.0f MiB while the store was away", resident.first/(1<<20), resident.most/(1<<20)))
	}
	if r.dead > 0 || r.missing > 0 {
		err = errors.Join(err, fmt.Errorf("%d dead letters, %d events missing", r.dead, r.missing))
	}
	if !found || full > r.recovery {
		err = errors.Join(err, fmt.Errorf("the full rate was back after %s, promised are %v", within(full, found), r.recovery))
	}
	return err
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

func (e valueRange) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%.0f to %.0f MiB (first %.0f, last %.0f)", e.least/mib, e.most/mib, e.first/mib, e.last/mib)
}
