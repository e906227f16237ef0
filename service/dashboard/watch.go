package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"keyfold/engine/terse"
	"keyfold/service/status"
)

const (
	lookEvery   = 2 * time.Second  // while a page is watched
	sampleEvery = 10 * time.Second // also while none is
	watchedFor  = 30 * time.Second // after the last request
	firstLook   = 3 * time.Second  // that a request waits for it
)

// snapshot is what is known at one time. It is not changed once it was published.
type snapshot struct {
	At     time.Time
	Took   time.Duration
	Report *status.Report // nil: no look has ended yet
	Fault  string         // why the last look found nothing at all; Report is then an earlier one
	// Since says when a look first met a problem, by [problemKey].
	Since map[string]time.Time
	// Seen says when each process last answered, by its address.
	Seen    map[string]time.Time
	Samples []sample // of the last 15 minutes, the newest last
}

// watch looks at the installation again and again, for all viewers together.
type watch struct {
	look func(context.Context, map[string]map[string]float64) (*status.Report, error)
	now  func() time.Time
	log  *slog.Logger

	last   atomic.Pointer[snapshot]
	wanted atomic.Int64 // when a page was last asked for, Unix nanoseconds
	wake   chan struct{}
	first  chan struct{} // closed once a look has ended
	once   sync.Once
	fault  terse.Fault
	ring   ring // of run's goroutine
}

func newWatch(look func(context.Context, map[string]map[string]float64) (*status.Report, error), now func() time.Time, log *slog.Logger) *watch {
	w := &watch{look: look, now: now, log: log, wake: make(chan struct{}, 1), first: make(chan struct{})}
	w.last.Store(&snapshot{})
	return w
}

// current returns what is known, and has the looks come more often for a while. Before the first
// look it waits for that, a moment.
func (w *watch) current(ctx context.Context) *snapshot {
	w.wanted.Store(w.now().UnixNano())
	select {
	case w.wake <- struct{}{}:
	default:
	}
	waited := time.NewTimer(firstLook)
	defer waited.Stop()
	select {
	case <-w.first:
	case <-waited.C:
	case <-ctx.Done():
	}
	return w.last.Load()
}

func (w *watch) watched() bool { return w.now().UnixNano()-w.wanted.Load() < int64(watchedFor) }

// run looks until ctx ends.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		started := w.now()
		r, err := w.look(ctx, w.ring.before())
		if ctx.Err() != nil {
			return
		}
		w.take(started, r, err)
		w.pause(ctx, started)
	}
}

// pause waits for the next look: a request shortens the wait.
func (w *watch) pause(ctx context.Context, started time.Time) {
	for ctx.Err() == nil {
		every := sampleEvery
		if w.watched() {
			every = lookEvery
		}
		left := every - w.now().Sub(started)
		if left <= 0 {
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take publishes what a look has found.
func (w *watch) take(started time.Time, r *status.Report, err error) {
	before := w.last.Load()
	next := &snapshot{At: started, Took: w.now().Sub(started), Report: r, Seen: before.Seen, Since: before.Since}
	if err != nil {
		r = nil
		next.At, next.Took, next.Report, next.Fault = before.At, before.Took, before.Report, err.Error()
		if w.fault.Begins(err) {
			w.log.Warn("the installation is not seen", slog.Any("error", err), slog.String("hint", "the pages show what was seen last, and why there is nothing newer"))
		}
	} else {
		if _, was := w.fault.Ends(); was {
			w.log.Info("the installation is seen again")
		}
		next.Since, next.Seen = sinceOf(r, before.Since), seenOf(r, before.Seen)
	}
	w.ring.add(started, r)
	next.Samples = w.ring.all()
	w.last.Store(next)
	w.once.Do(func() { close(w.first) })
}

// problemKey names a problem from one look to the next: its figures change.
func problemKey(p status.Problem) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) || r == ',' || r == '.' {
			return -1
		}
		return r
	}, p.Text)
	return strings.Join([]string{p.About, p.Runbook, cmp.Or(p.Cure, text)}, "\x00")
}

func sinceOf(r *status.Report, before map[string]time.Time) map[string]time.Time {
	since := map[string]time.Time{}
	for _, p := range r.Problems {
		key := problemKey(p)
		since[key] = r.At
		if at, known := before[key]; known {
			since[key] = at
		}
	}
	return since
}

// seenOf also keeps processes that are not asked for any more, a day.
func seenOf(r *status.Report, before map[string]time.Time) map[string]time.Time {
	seen := map[string]time.Time{}
	for address, at := range before {
		if r.At.Sub(at) < 24*time.Hour {
			seen[address] = at
		}
	}
	for _, p := range r.Processes {
		if p.Error == "" {
			seen[p.Address] = r.At
		}
	}
	return seen
}
