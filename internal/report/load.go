package report

import (
	"time"

	"keyfold/internal/cli"
)

// Load is what became of events that were published at a rate.
type Load struct {
	PerMinute  float64 // that were to be published
	Workers    int     // 0: not known
	Published  int
	Folded     int
	Dead       int // dead letters
	ToProfile  Latencies
	QueueDepth []int // looks at what waits in the workers' queues
}

// Targets of the criteria.
const (
	promisedProfile = 30 * time.Second
	promisedRate    = 1000 // events a minute
	promisedShare   = 0.999
	behind          = time.Minute // is too late to keep up
	promisedDepth   = 5000
)

// Load adds figures of a load, and the verdicts that it gives.
func (r *Report) Load(l Load) {
	missing, share := l.Published-l.Folded, float64(l.Folded)/float64(max(1, l.Published))
	r.Add("published", "events", float64(l.Published))
	r.Add("folded", "events", float64(l.Folded))
	r.Add("folded share", "%", 100*share)
	r.Add("dead letters", "events", float64(l.Dead))
	r.Latency("event to profile", l.ToProfile)
	most, sum := 0, 0
	for _, depth := range l.QueueDepth {
		most, sum = max(most, depth), sum+depth
	}
	r.Add("ready in the queue, at most", "events", float64(most))
	r.Add("ready in the queue, average", "events", float64(sum)/float64(max(1, len(l.QueueDepth))))

	late, latest := l.ToProfile.Seconds(99.9), l.ToProfile.Seconds(100)
	r.Judge(SC002, share >= promisedShare && late < promisedProfile.Seconds(), "p99.9 %s, at most %s, %s in no profile", Span(late), Span(latest), cli.Count(int64(missing), "event"))
	workers := "the running workers"
	if l.Workers > 0 {
		workers = cli.Count(int64(l.Workers), "worker")
	}
	if l.PerMinute < promisedRate {
		r.Unjudged(SC003, "fewer than 1,000 events a minute were published")
	} else {
		r.Judge(SC003, missing <= l.Dead && latest < behind.Seconds(), "%s a minute for %s, %s folded, at most %s behind",
			cli.Count(int64(l.PerMinute+0.5), "event"), workers, cli.Number(int64(l.Folded)), Span(latest))
	}
	r.Judge(SC004, share >= promisedShare && missing <= l.Dead, "%.3f %% folded, %s, %d in neither", 100*share, cli.Count(int64(l.Dead), "dead letter"), max(0, missing-l.Dead))
	r.Judge(SC008, most < promisedDepth, "%s at most, of %s", cli.Number(int64(most)), cli.Count(int64(len(l.QueueDepth)), "look"))
}
