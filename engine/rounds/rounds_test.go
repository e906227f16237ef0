package rounds_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/rounds"
)

var (
	errFault   = errors.New("fault")
	errStop    = errors.New("stop")
	errConfig  = engine.ConfigurationError("rights", errors.New("no rights"))
	errStopped = errors.New("the wait was stopped")
)

// The letters of a script, a round each: c a conflict, f a failure, w a failure after a
// wait, x a fault of configuration, a the end of the wait, s the end of the context; after
// the last one nothing is left.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		script string
		failed int
		end    rounds.End
		err    error
		rounds int
	}{
		{"", 0, rounds.Done, nil, 1},
		{"cc", 0, rounds.Done, nil, 3},
		{"ccc", 0, rounds.Conflicting, engine.ErrConflict, 3},
		{"ff", 0, rounds.Done, nil, 3},
		{"fff", 0, rounds.Failing, errFault, 3},
		{"ffcff", 0, rounds.Done, nil, 6}, // in a row
		{"f", 2, rounds.Failing, errFault, 1},
		{"wffw", 0, rounds.Failing, errFault, 3},
		{"fwfwfw", 0, rounds.Failing, errFault, 6}, // it relapses
		{"fx", 0, rounds.Failing, errConfig, 2},
		{"fa", 0, rounds.Away, errStopped, 1},
		{"cs", 0, rounds.Stopped, errStop, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			script, done := []byte(test.script), 0
			next := func() byte {
				if done >= len(script) {
					return 0
				}
				return script[done]
			}
			end, err := rounds.Policy{Conflicts: 2, Failures: 3, Pause: time.Second, MaxPause: time.Minute}.Run(ctx, rounds.Work{
				Failed: test.failed,
				Wait: func() (bool, error) {
					if next() == 'a' {
						return true, errStopped
					}
					return next() == 'w', nil
				},
				Round: func() (bool, error) {
					letter := next()
					done++
					switch letter {
					case 'f', 'w':
						return true, errFault
					case 'x':
						return true, errConfig
					case 's':
						stop(errStop)
					case 0:
						return false, nil
					}
					return true, nil
				},
			})
			if end != test.end || !errors.Is(err, test.err) || done != test.rounds {
				t.Errorf("%q ended as %d with %v after %d rounds, want %d, %v, %d", test.script, end, err, done, test.end, test.err, test.rounds)
			}
		})
	}
}

// The pauses after failures grow up to the longest, and without a bound of failures they
// go on.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pauses []time.Duration
		count := 0
		end, err := rounds.Policy{Pause: time.Second, MaxPause: 8 * time.Second}.Run(t.Context(), rounds.Work{
			Wait:    func() (bool, error) { return false, nil },
			Round:   func() (bool, error) { count++; return count <= 10, errFault },
			Failing: func(_ error, pause time.Duration) { pauses = append(pauses, pause) },
		})
		if end != rounds.Done || err != nil || len(pauses) != 10 {
			t.Fatalf("ended as %d with %v after the pauses %v", end, err, pauses)
		}
		spans := []time.Duration{1, 2, 4, 8, 8, 8, 8, 8, 8, 8}
		for i, pause := range pauses {
			if span := spans[i] * time.Second; pause < span/2 || pause > span {
				t.Errorf("pause %d is %v, want %v to %v", i, pause, span/2, span)
			}
		}
		if slices.Max(pauses) > 8*time.Second {
			t.Errorf("a pause of %v", slices.Max(pauses))
		}
	})
}
