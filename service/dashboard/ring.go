package dashboard

import (
	"maps"
	"math"
	"strings"
	"time"

	"keyfold/engine/metric"
	"keyfold/service/status"
)

// shown is how far back figures are kept.
const shown = 15 * time.Minute

// sample is what happened in one span of about 10 s.
type sample struct {
	At      time.Time // its end
	Seconds float64
	// Events that came, that were folded, profile writes, and notifications decided. NaN: no
	// process said.
	In, Folded, Writes, Decided float64
	ages                        map[string]float64 // events by the bucket of their age, when they were in their profile
	// Messages that wait for a worker, and rows that wait for the relay. NaN: not known.
	Queued, Unsent float64
	Restarted      bool // a process began anew
}

// ring keeps the samples, and of each process the figures that the next one is compared with.
type ring struct {
	samples []sample
	last    time.Time // of the newest one
	known   map[string]reading
	minute  []map[string]map[string]float64 // what processes said at the newest samples, the oldest first
}

// reading is what a process said at a time.
type reading struct {
	at      time.Time
	figures map[string]float64
}

// counters are the families that samples are made of. The first is of workers alone.
const (
	writes    = "keyfold_profile_writes_total"
	decisions = "keyfold_notify_decisions_total"
	ages      = "keyfold_event_to_profile_seconds"
)

// kept reports whether samples are made of a series.
func kept(series string) bool {
	family, _, _ := strings.Cut(series, "{")
	switch family {
	case writes, decisions, ages + "_bucket", "keyfold_rabbitmq_delivered_total", "keyfold_stream_read_total":
		return true
	}
	return strings.HasPrefix(series, `keyfold_events_total{outcome="folded"`)
}

// before returns what processes said about a minute ago.
func (g *ring) before() map[string]map[string]float64 {
	if len(g.minute) == 0 {
		return nil
	}
	return g.minute[0]
}

// add makes a sample where one is due. r is nil where the look found nothing.
func (g *ring) add(at time.Time, r *status.Report) {
	if !g.last.IsZero() && at.Sub(g.last) < sampleEvery-lookEvery/2 {
		return
	}
	s := sample{At: at, In: math.NaN(), Folded: math.NaN(), Writes: math.NaN(), Decided: math.NaN(), Queued: math.NaN(), Unsent: math.NaN(), ages: map[string]float64{}}
	if !g.last.IsZero() {
		s.Seconds = at.Sub(g.last).Seconds()
	}
	if r != nil {
		s.backlog(r)
		known := map[string]reading{}
		said := map[string]map[string]float64{}
		for _, p := range r.Processes {
			if p.Error != "" {
				continue
			}
			now := reading{at, map[string]float64{}}
			for series, value := range p.Figures {
				if kept(series) {
					now.figures[series] = value
				}
			}
			s.addProcess(now, g.known[p.Address])
			known[p.Address], said[p.Address] = now, p.Figures
		}
		for address, was := range g.known { // it may answer again
			if _, answered := known[address]; !answered && at.Sub(was.at) < 2*time.Minute {
				known[address] = was
			}
		}
		g.known = known
		g.minute = append(g.minute, said)
		g.minute = g.minute[max(0, len(g.minute)-int(time.Minute/sampleEvery)):]
	}
	g.last = at
	g.samples = append(g.samples, s)
	first := 0
	for first < len(g.samples) && at.Sub(g.samples[first].At) > shown {
		first++
	}
	g.samples = append([]sample(nil), g.samples[first:]...) // readers hold the former slice
}

// all returns the samples, the newest last.
func (g *ring) all() []sample { return g.samples }

func (s *sample) backlog(r *status.Report) {
	for _, q := range r.Queues {
		if q.Holds == status.Events && q.Of == status.OfProfiles && !q.Missing {
			s.Queued = plus(s.Queued, float64(q.Ready))
		}
	}
	for _, one := range r.Streams {
		s.Queued = plus(s.Queued, float64(one.Lag))
	}
	if r.Outbox != nil {
		s.Unsent = float64(r.Outbox.Unsent)
	}
}

// addProcess adds what a process did since it was last asked. Of a span that is longer than the
// sample's, because it did not answer meanwhile, the sample gets its part.
func (s *sample) addProcess(now, was reading) {
	if was.figures == nil {
		return
	}
	part := 1.0
	if span := now.at.Sub(was.at).Seconds(); span > s.Seconds && s.Seconds > 0 {
		part = s.Seconds / span
	}
	_, worker := now.figures[writes]
	if began(now.figures, was.figures) {
		s.Restarted = true
		was.figures = nil // it counts from 0 again
	}
	for series, value := range now.figures {
		more := part * max(0, value-was.figures[series])
		family, _, _ := strings.Cut(series, "{")
		switch {
		case family == decisions:
			s.Decided = plus(s.Decided, more)
		case !worker:
		case family == writes:
			s.Writes = plus(s.Writes, more)
		case family == ages+"_bucket":
			s.ages[series] += more
		case family == "keyfold_events_total":
			s.Folded = plus(s.Folded, more)
		default:
			s.In = plus(s.In, more)
		}
	}
}

// began reports whether a counter fell: the process is another one.
func began(now, was map[string]float64) bool {
	for series, value := range was {
		if n, there := now[series]; !there || n < value {
			return true
		}
	}
	return false
}

// plus adds to a figure that may not be known yet.
func plus(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	return a + b
}

// sum adds spans up.
func sum(samples []sample) sample {
	all := sample{In: math.NaN(), Folded: math.NaN(), Writes: math.NaN(), Decided: math.NaN(), Queued: math.NaN(), Unsent: math.NaN(), ages: map[string]float64{}}
	for _, s := range samples {
		if s.Seconds == 0 {
			continue
		}
		known := false
		for _, pair := range []struct{ to, more *float64 }{{&all.In, &s.In}, {&all.Folded, &s.Folded}, {&all.Writes, &s.Writes}, {&all.Decided, &s.Decided}} {
			if !math.IsNaN(*pair.more) {
				*pair.to = plus(*pair.to, *pair.more)
				known = true
			}
		}
		if known {
			all.Seconds += s.Seconds
		}
		for series, n := range s.ages {
			all.ages[series] += n
		}
	}
	if n := len(samples); n > 0 {
		all.At, all.Queued, all.Unsent = samples[n-1].At, samples[n-1].Queued, samples[n-1].Unsent
	}
	return all
}

// rate is so many a second; NaN: not known.
func (s sample) rate(n float64) float64 {
	if s.Seconds == 0 {
		return math.NaN()
	}
	return n / s.Seconds
}

// saved is the share of writes that windows saved against one write per event; NaN: nothing was folded.
func (s sample) saved() float64 {
	if !(s.Folded > 0) {
		return math.NaN()
	}
	return max(0, 1-s.Writes/s.Folded)
}

// age is how old q of the events were at most when they were in their profile, in seconds.
func (s sample) age(q float64) float64 {
	if n := metric.Quantile(maps.Clone(s.ages), nil, ages, q); n != nil {
		return *n
	}
	return math.NaN()
}
