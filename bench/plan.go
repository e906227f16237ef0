package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/source/sample"
)

// planCmd reckons what a load needs: partitions, workers, broker nodes, shards of the store. The windows are
// simulated, the rest is arithmetic on assumptions, which are flags. docs/SCALING.md says where the defaults are from.
type planCmd struct {
	Users    float64       `default:"100e6" help:"Users."`
	Rate     float64       `default:"1e6" help:"Events/s."`
	Pattern  string        `default:"visits" enum:"visits,uniform,zipf" help:"How users act: in visits as those of the sample shop; at random, all alike; at random, with Zipf's law (exponent 1) over the users."`
	Window   time.Duration `default:"5s" help:"EMBEDDING_BATCH_WINDOW."`
	MaxDelay time.Duration `default:"15s" help:"EMBEDDING_BATCH_MAX_DELAY."`
	MaxSize  int           `default:"500" help:"EMBEDDING_BATCH_MAX_SIZE."`
	Workers  float64       `default:"0" help:"Workers; 0: as few as take the rate."`
	Prefetch float64       `default:"65535" help:"WORKER_PREFETCH; windows close early where it does not hold their events."`

	Worker       float64 `default:"11763" help:"Events/s of one worker."`
	Node         float64 `default:"30000" help:"Messages/s, in and out again, of the queues that one broker node leads (an assumption)."`
	Queue        float64 `default:"20000" help:"Messages/s, in and out again, of one quorum queue (an assumption)."`
	Writes       float64 `default:"4000" help:"Profiles/s that one shard of the store writes (an assumption)."`
	ProfileBytes float64 `default:"24e3" help:"Bytes of a profile's document."`
	EventBytes   float64 `default:"1e3" help:"Bytes of an event in a queue (an assumption)."`
}

// traffic is what windows make of a load.
type traffic struct {
	perWrite float64 // events
	hold     float64 // mean seconds from an event's arrival to the end of its window
	topUser  float64 // events/s of the most active user
	full     float64 // workers whose prefetch holds the events of full windows
}

// windows adds the windows of one user's events, at ascending times in seconds, to count, and what the events wait for
// the end of theirs to waited.
func (c *planCmd) windows(times []float64, count, waited *float64) {
	window, maxDelay := c.Window.Seconds(), c.MaxDelay.Seconds()
	for i := 0; i < len(times); *count++ {
		first, end := i, times[i]+min(window, maxDelay)
		for i++; i < len(times) && times[i] <= end && i-first < c.MaxSize; i++ {
			end = min(times[i]+window, times[first]+maxDelay)
		}
		if i-first == c.MaxSize {
			end = times[i-1]
		}
		for _, t := range times[first:i] {
			*waited += end - t
		}
	}
}

// poisson returns the traffic of one user who acts at random at a rate.
func (c *planCmd) poisson(perSecond float64) traffic {
	r, times, at := rand.New(rand.NewPCG(1, 2)), make([]float64, 20_000), 0.0
	for i := range times {
		at += r.ExpFloat64() / perSecond
		times[i] = at
	}
	var count, waited float64
	c.windows(times, &count, &waited)
	n := float64(len(times))
	return traffic{perWrite: n / count, hold: waited / n, topUser: perSecond}
}

// zipf adds the users up by rank, in groups whose ranks differ by a half.
func (c *planCmd) zipf() traffic {
	const step = 1.5
	harmonic := math.Log(c.Users) + 0.5772
	var writes, held float64
	for rank := 1.0; rank < c.Users; rank *= step {
		share := c.Rate * math.Log(min(step, c.Users/rank)) / harmonic
		t := c.poisson(c.Rate / (rank * math.Sqrt(step) * harmonic))
		writes += share / t.perWrite
		held += share * t.hold
	}
	total := c.Rate * math.Log(c.Users) / harmonic
	return traffic{perWrite: total / writes, hold: held / total, topUser: c.Rate / harmonic}
}

// visits takes the sample shop's, of users who hardly come twice: more users at the same time change nothing.
func (c *planCmd) visits() (traffic, error) {
	byUser, err := sampled()
	if err != nil {
		return traffic{}, err
	}
	var count, waited, n, top float64
	for _, user := range slices.Sorted(maps.Keys(byUser)) { // in their order, so that two runs add up alike
		times := byUser[user]
		n += float64(len(times))
		c.windows(times, &count, &waited)
		top = max(top, float64(len(times))/(1+times[len(times)-1]-times[0]))
	}
	return traffic{perWrite: n / count, hold: waited / n, topUser: top}, nil
}

// sampled returns the times of each user's events, in seconds.
var sampled = sync.OnceValues(func() (map[int32][]float64, error) {
	config := sample.DefaultConfig(4000)
	config.Skew, config.Users, config.Repeats = 0, 1_000_000, 0
	byUser := map[int32][]float64{}
	for _, body := range sample.Events(config) {
		e, err := engine.ParseEvent(body, time.Now())
		if err != nil {
			return nil, err
		}
		byUser[e.UserID] = append(byUser[e.UserID], float64(e.OccurredAt)/1000)
	}
	return byUser, nil
})

func (c *planCmd) traffic() (traffic, error) {
	switch c.Pattern {
	case "uniform":
		return c.poisson(c.Rate / c.Users), nil
	case "zipf":
		return c.zipf(), nil
	}
	return c.visits()
}

// consumers returns how many workers and partitions take the rate, as far as there are slots.
func (c *planCmd) consumers() (workers, partitions float64) {
	workers = max(c.Workers, math.Ceil(c.Rate/c.Worker))
	return min(workers, engine.Slots), min(math.Exp2(math.Ceil(math.Log2(workers))), engine.Slots)
}

// fit shortens the windows until the prefetch of all workers holds what waits in them, as pressure does, and
// returns to which part of their length.
func (c planCmd) fit() (t traffic, part float64, err error) {
	workers, _ := c.consumers()
	room, window, maxDelay := 0.75*c.Prefetch*workers, c.Window, c.MaxDelay
	traffic := func(part float64) bool {
		c.Window, c.MaxDelay = time.Duration(float64(window)*part), time.Duration(float64(maxDelay)*part)
		if err == nil {
			t, err = c.traffic()
		}
		return c.Rate*t.hold <= room
	}
	fits := traffic(1)
	full := math.Ceil(c.Rate * t.hold / (0.75 * c.Prefetch))
	if fits {
		t.full = full
		return t, 1, err
	}
	low, high := 0.0, 1.0
	for high-low > 0.005 {
		if part = (low + high) / 2; traffic(part) {
			low = part
		} else {
			high = part
		}
	}
	traffic(low)
	t.full = full
	return t, low, err
}

// need is one quantity of a plan: how much, of how much there can be (0: as much as one pays for).
type need struct {
	what        string
	amount, max float64
	how         string
}

// needs returns the arithmetic.
func (c *planCmd) needs(t traffic, part float64) []need {
	workers, partitions := c.consumers()
	writes := c.Rate / t.perWrite
	ids := engine.DefaultIDLimits()
	return []need{
		{"windows, part of their length", part, 0, "as long as the prefetch holds their events"},
		{"events per write", t.perWrite, 0, "simulated: windows over " + c.Pattern},
		{"events held at once", c.Rate * t.hold, 0, fmt.Sprintf("rate x %.2f s, simulated; at most 3/4 of the prefetch", t.hold)},
		{"partitions", partitions, 0, "least power of two >= workers, at most 64"},
		{"workers", workers, 0, fmt.Sprintf("rate / %.0f a worker, at most one per partition", c.Worker)},
		{"workers for windows of full length", t.full, 0, fmt.Sprintf("their events / (3/4 x prefetch of %.0f)", c.Prefetch)},
		{"events/s of one partition", c.Rate / partitions, c.Worker, "rate / partitions; one worker consumes it"},
		{"memory of one worker, GiB", c.Prefetch * (16 << 10) / (1 << 30), 0, "prefetch x 16 KiB"},
		{"messages/s of one queue", c.Rate / partitions, c.Queue, "rate / partitions; one process of the broker has it"},
		{"broker nodes", c.nodes(partitions), 0, fmt.Sprintf("%.0f messages/s a node, queues undivided, at least 3", c.Node)},
		{"broker disk, GB for 10 minutes", c.Rate * 600 * c.EventBytes * 3 / 1e9, 0, "rate x 600 s x bytes of an event x 3 members"},
		{"store writes/s", writes, 0, "rate / events per write; as many reads at most"},
		{"store writes, GB/s", writes * c.ProfileBytes / 1e9, 0, "writes x bytes of a profile, on each member"},
		{"shards of the store", math.Ceil(writes / c.Writes), 0, fmt.Sprintf("writes / %.0f a shard", c.Writes)},
		{"profiles, TB", c.Users * c.ProfileBytes / 1e12, 0, "users x bytes of a profile, uncompressed, on each member"},
		{"events/s of the most active user", t.topUser, float64(ids.Max) / ids.Horizon.Seconds(), "262,144 ids in a horizon of 600 s"},
		{"user ids", c.Users, math.MaxInt32, "positive int32"},
	}
}

// nodes returns how many broker nodes lead the queues of the partitions: a queue is on one
// node and cannot be divided.
func (c *planCmd) nodes(partitions float64) float64 {
	each := math.Max(1, math.Floor(c.Node*partitions/c.Rate)) // queues of a node
	return max(3, math.Ceil(partitions/each))
}

// Run prints the plan, and what breaks first.
func (c *planCmd) Run() error {
	t, part, err := c.fit()
	if err != nil {
		return err
	}
	return c.report(os.Stdout, c.needs(t, part))
}

func (c *planCmd) report(w io.Writer, all []need) (err error) {
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	line("%.4g users, %.4g events/s, %s\n", c.Users, c.Rate, c.Pattern)
	for _, n := range all {
		of := ""
		if n.max > 0 {
			of = "of " + rounded(n.max)
		}
		line("%-36s %11s %-14s %s", n.what, rounded(n.amount), of, n.how)
	}
	first := breaksFirst(all)
	verb := "breaks first, when the load grows"
	if first.amount > first.max {
		verb = "does not hold"
	}
	line("\n%q %s: it is at %.0f %% of what there can be", first.what, verb, 100*first.amount/first.max)
	return err
}

// rounded writes whole numbers from a thousand on, and three digits that count below.
func rounded(x float64) string {
	if x >= 1000 {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// breaksFirst returns the need that is nearest to, or farthest above, what there can be.
func breaksFirst(all []need) (first need) {
	ratio := -1.0
	for _, n := range all {
		if n.max > 0 && n.amount/n.max > ratio {
			first, ratio = n, n.amount/n.max
		}
	}
	return first
}
