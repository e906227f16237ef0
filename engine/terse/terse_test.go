package terse

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
)

// A fault is told when it begins and when it ends, and in between where it turns out
// to be another one.
//
// Promise(shutdown/one-line): A server that is away costs one log line when that begins and one when
// it ends, and the line of the minute has the reason.
func TestFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Fault
		if _, was := f.Ends(); was {
			t.Error("a fault ends that never began")
		}
		away, refused := errors.New("connection refused"), engine.ConfigurationError("access_refused", errors.New("wrong password"))
		for i, step := range []struct {
			err  error
			told bool
		}{{away, true}, {fmt.Errorf("port 4711: %w", away), false}, {refused, true}, {away, false}, {refused, false}} {
			if told := f.Begins(step.err); told != step.told {
				t.Errorf("step %d: told is %v", i, told)
			}
			time.Sleep(time.Second)
		}
		if lasted, was := f.Ends(); !was || lasted != 5*time.Second {
			t.Errorf("it ends after %v: %v", lasted, was)
		}
		if !f.Begins(away) {
			t.Error("the next fault is not told")
		}
	})
}

// Of lines that are alike the first is written at once and the others once a minute,
// with their number and the newest one's content.
//
// Promise(security/refusals-logged)
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Repeats
		var mu sync.Mutex
		var lines []string
		add := func(key string, id int) {
			r.Add(key, func(n int) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, fmt.Sprintf("%s %d: %d", key, id, n))
			})
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(lines, want) {
				t.Errorf("%s: %q, want %q", when, lines, want)
			}
			lines = nil
		}
		for id := range 25 {
			add("a", id)
		}
		add("b", 7)
		expect("at once", "a 0: 1", "b 7: 1")
		time.Sleep(Interval - time.Nanosecond)
		expect("before the minute is over")
		time.Sleep(time.Nanosecond)
		expect("a minute later", "a 24: 24")
		add("a", 30)
		add("b", 8)
		expect("b had been quiet for a minute", "b 8: 1")
		time.Sleep(Interval)
		expect("the next minute", "a 30: 1")
		time.Sleep(2 * Interval)
		expect("nothing came")
		add("a", 31)
		add("a", 32)
		r.Close()
		expect("closed", "a 31: 1", "a 32: 1")
		time.Sleep(2 * Interval)
		expect("after the close")
	})
}
