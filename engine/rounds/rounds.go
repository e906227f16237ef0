// Package rounds repeats work on a store until nothing of it is left: the store may be
// away, fail, or hold another version than the work was done for.
package rounds

import (
	"context"
	"math/rand/v2"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

// Policy bounds how often a round is repeated.
type Policy struct {
	Conflicts int // rounds without an error that may leave work
	Failures  int // rounds in a row that may fail; 0: any number
	// Pause and MaxPause bound the wait after a failure, which doubles with each.
	Pause, MaxPause time.Duration
}

// Work is what is repeated.
type Work struct {
	// Wait waits until the store may be asked, and reports whether it had to.
	Wait func() (waited bool, err error)
	// Round does once what is to be done, reports whether some of it is left, and returns
	// the store's error.
	Round func() (left bool, err error)
	// Failing is told of a round's error and of the pause that follows; nil: nothing is.
	Failing func(err error, pause time.Duration)
	// Failed is how many rounds in a row have failed before the first one.
	Failed int
}

// End is why no round follows.
type End uint8

const (
	// Done: no work is left.
	Done End = iota
	// Stopped: the context ended; the error is its cause.
	Stopped
	// Away: the wait for the store ended with the error.
	Away
	// Conflicting: versions moved in more rounds than the policy allows.
	Conflicting
	// Failing: the store failed as often as the policy allows, or, once, by a fault of
	// configuration; the error is the last round's.
	Failing
)

// Run repeats rounds until one leaves no work or the policy ends them. Rounds that fail
// right after a wait count on their own, too: a store that is back for one call at a time
// is not waited for without end.
func (p Policy) Run(ctx context.Context, w Work) (End, error) {
	conflicts, failures, relapses := 0, w.Failed, 0
	waits := backoff.Backoff{Min: p.Pause, Max: p.MaxPause}
	for {
		waited, err := w.Wait()
		if err != nil {
			return Away, err
		}
		left, err := w.Round()
		switch {
		case !left:
			return Done, nil
		case ctx.Err() != nil:
			return Stopped, context.Cause(ctx)
		case err == nil:
			failures = 0
			if conflicts++; conflicts > p.Conflicts {
				return Conflicting, engine.ErrConflict
			}
			p.separate(ctx, conflicts)
			continue
		case engine.KindOf(err) == engine.Configuration:
			return Failing, err
		}
		if waited { // the store has just shown that it works
			failures = 0
			relapses++
		}
		if failures++; p.Failures > 0 && max(failures, relapses) >= p.Failures {
			return Failing, err
		}
		pause := waits.Next()
		if w.Failing != nil {
			w.Failing(err, pause)
		}
		backoff.Sleep(ctx, pause)
	}
}

// separate waits after a conflict. The waits begin at zero, so that two workers that
// hold one user separate.
func (p Policy) separate(ctx context.Context, conflicts int) {
	backoff.Sleep(ctx, rand.N(backoff.Doubled(2*time.Millisecond, p.Pause, min(conflicts, 6))))
}
