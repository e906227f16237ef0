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

// triesToRepeat is how often a schedule runs at most until two of its runs agree.
const triesToRepeat = 6

// Repeat runs schedules until one of their runs repeats an earlier one: the same must
// happen at the same times, as the hash of a run tells. All but a few do at the second
// run. What is left are goroutines that act in the same instant (two delay queues that
// publish on one channel, the library's heartbeats), whose order is the Go scheduler's:
// no seed reaches it. On a busy machine a schedule with many such instants may not repeat
// at all; the bound of a quarter is for a seed that does not reach what it should, with
// which no two runs of any schedule agree.
func Repeat(t *testing.T, count int, run func(number uint64) (hash uint64)) {
	atOnce, never := 0, 0
	for n := range uint64(count) {
		switch runs := untilRepeated(n, run); {
		case runs == 2:
			atOnce++
		case runs > triesToRepeat:
			never++
		default:
			t.Logf("schedule %d repeated an earlier run at run %d", n, runs)
		}
	}
	t.Logf("%d of %d schedules did the same at the second run", atOnce, count)
	if few := count / 4; never > few {
		t.Errorf("of %d of %d schedules no two of %d runs did the same, want at most %d", never, count, triesToRepeat, few)
	}
}

// untilRepeated returns which run of a schedule repeated an earlier one, or one more than
// [triesToRepeat].
func untilRepeated(number uint64, run func(number uint64) (hash uint64)) int {
	seen := map[uint64]bool{}
	for i := range triesToRepeat {
		hash := run(number)
		if seen[hash] {
			return i + 1
		}
		seen[hash] = true
	}
	return triesToRepeat + 1
}
