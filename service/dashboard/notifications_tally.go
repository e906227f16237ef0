package dashboard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	tallied       = 24              // hours
	mostInHour    = 1_000_000       // decisions that are counted of an hour
	fewInHour     = 20_000          // of one of which so many take too long
	mostWaiting   = 100_000         // notifications that are counted, due ones and others each
	lateCommits   = 2 * time.Minute // after its end no decision comes into an hour
	firstPatience = 200 * time.Millisecond
	countAgain    = 10 * time.Minute // after a count that took too long
)

// hour is what was counted of one.
type hour struct {
	At     time.Time // when it was counted
	Closed bool      // it stays so
	Over   int64     // more than so many were not counted; 0: all were
	Fault  string    // why nothing is known
	Counts []DecisionCount
}

// tally counts decisions hour by hour, what waits and what is not reported. A closed hour is
// counted once; the rest again where a page asks, each 30 s at most, however many look. A page
// shows what is known, and waits for the first count alone, a moment.
type tally struct {
	from    *Notifications
	results *results
	now     func() time.Time

	mu         sync.Mutex
	hours      map[time.Time]hour // by their beginnings
	waiting    []WaitingCount
	unreported unreported
	faults     tallyFaults
	at         time.Time // of the last count that has ended; zero: none has
}

// unreported is how many sent ones are not reported, of at most so many.
type unreported struct{ N, Most int64 }

// tallyFaults are why parts are not known.
type tallyFaults struct{ Hours, Waiting, Unreported string }

func newTally(from *Notifications, results *results, now func() time.Time) *tally {
	return &tally{from: from, results: results, now: now, hours: map[time.Time]hour{}}
}

// refresh counts anew where the last count is old. It waits for the first count, a moment.
func (t *tally) refresh(ctx context.Context) {
	r := t.results.begin(resultKey{what: "tally"}, func(ctx context.Context) (any, error) {
		t.count(ctx)
		return nil, nil
	})
	if t.counted() {
		return
	}
	wait := time.NewTimer(firstPatience)
	defer wait.Stop()
	select {
	case <-r.done:
	case <-wait.C:
	case <-ctx.Done():
	}
}

// counted reports whether a count has ended.
func (t *tally) counted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.at.IsZero()
}

// count counts what is not known yet, the newest hour first.
func (t *tally) count(ctx context.Context) {
	waiting, err := t.from.Waiting(ctx, mostWaiting)
	missing, most, unreportedErr := t.from.Unreported(ctx)
	t.mu.Lock()
	t.waiting, t.faults.Waiting = waiting, countFault(err)
	t.unreported, t.faults.Unreported = unreported{missing, most}, countFault(unreportedErr)
	t.mu.Unlock()
	err = nil
	for _, begin := range hoursUntil(t.now()) {
		if t.settled(begin) {
			continue
		}
		var one hour
		if one, err = t.countHour(ctx, begin); err != nil {
			break
		}
		t.mu.Lock()
		t.hours[begin] = one
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults.Hours, t.at = countFault(err), t.now()
	for begin := range t.hours {
		if t.at.Sub(begin) > (tallied+1)*time.Hour {
			delete(t.hours, begin)
		}
	}
}

// settled reports whether an hour need not be counted again.
func (t *tally) settled(begin time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, counted := t.hours[begin]
	return counted && one.Closed && (one.Fault == "" || t.now().Sub(one.At) < countAgain)
}

// countHour counts an hour. The error is of the ledger; that it has too many is none.
func (t *tally) countHour(ctx context.Context, begin time.Time) (one hour, err error) {
	one = hour{At: t.now()}
	one.Closed = one.At.Sub(begin.Add(time.Hour)) > lateCommits
	for _, most := range []int64{mostInHour, fewInHour} {
		one.Counts, err = t.from.Counts(ctx, begin, begin.Add(time.Hour), most+1)
		if !errors.Is(err, ErrTooMany) {
			if sumOf(one.Counts) > most {
				one.Over = most
			}
			return one, err
		}
	}
	one.Fault = err.Error()
	return one, nil
}

func countFault(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func sumOf(all []DecisionCount) (n int64) {
	for _, c := range all {
		n += c.N
	}
	return n
}

// hoursUntil returns the beginnings of the last hours, the newest first.
func hoursUntil(now time.Time) (all []time.Time) {
	newest := now.UTC().Truncate(time.Hour)
	for i := range tallied {
		all = append(all, newest.Add(-time.Duration(i)*time.Hour))
	}
	return all
}

// known is what a tally knows, the oldest hour first; nil: it was not counted yet.
type known struct {
	Begins     []time.Time
	Hours      []*hour
	Waiting    []WaitingCount
	Unreported unreported
	Faults     tallyFaults
	At         time.Time
}

func (t *tally) snapshot(now time.Time) known {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := known{Begins: hoursUntil(now), Waiting: t.waiting, Unreported: t.unreported, Faults: t.faults, At: t.at}
	slices.Reverse(k.Begins)
	for _, begin := range k.Begins {
		var counted *hour
		if one, ok := t.hours[begin]; ok {
			counted = &one
		}
		k.Hours = append(k.Hours, counted)
	}
	return k
}
