package schedule

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Environment variables of every campaign.
const (
	EnvFirst = "KEYFOLD_SIM_FIRST" // the number with which it begins
	EnvTime  = "KEYFOLD_SIM_TIME"  // how long it takes at most, as a Go duration
)

// Campaign is a run of many schedules, as many at once as there are processors.
type Campaign struct {
	Count  uint64
	Run    func(t *testing.T, number uint64) error
	Replay func(number uint64) string // how a schedule that failed is run again

	First        uint64 // the number of the first one
	Done         atomic.Uint64
	until        time.Time
	next, failed atomic.Uint64
}

// enough is how many failures end a campaign.
const enough = 5

// Go runs the campaign.
func (c *Campaign) Go(t *testing.T) {
	c.First, c.until = Number(t, EnvFirst, 1), time.Now().Add(span(t))
	t.Run("side by side", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				c.work(t)
			})
		}
	})
	if done := c.Done.Load(); done < c.Count && c.failed.Load() == 0 {
		t.Logf("stopped by %s after %d of %d schedules", EnvTime, done, c.Count)
	}
}

// work takes schedules one after the other until there are no more.
func (c *Campaign) work(t *testing.T) {
	for time.Now().Before(c.until) && c.failed.Load() < enough {
		n := c.next.Add(1) - 1
		if n >= c.Count {
			return
		}
		err := c.Run(t, c.First+n)
		c.Done.Add(1)
		if err != nil {
			c.failed.Add(1)
			t.Errorf("schedule %d: %v\nreplay: %s", c.First+n, err, c.Replay(c.First+n))
		}
	}
}

// span is how long a campaign may take.
func span(t *testing.T) time.Duration {
	text := os.Getenv(EnvTime)
	if text == "" {
		return 15 * time.Minute
	}
	limit, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", EnvTime, err)
	}
	return limit
}

// Number reads an environment variable.
func Number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// Repeat runs schedules twice: the same must happen at the same times, as the hash of a
// run tells. All but a few do. What is left are goroutines that act in the same instant
// (two delay queues that publish on one channel, the library's heartbeats), whose order
// is the Go scheduler's: no seed reaches it. With the race detector that is one of 20
// or 30; the bound is for a seed that does not reach what it should.
func Repeat(t *testing.T, count int, run func(number uint64) (hash uint64, lines int)) {
	differ := 0
	for n := range uint64(count) {
		first, lines := run(n)
		if second, then := run(n); second != first {
			differ++
			t.Logf("schedule %d: %d lines, then %d", n, lines, then)
		}
	}
	t.Logf("%d of %d schedules differ", differ, count)
	if few := count / 4; differ > few {
		t.Errorf("%d of %d schedules did not do the same twice, want at most %d", differ, count, few)
	}
}
