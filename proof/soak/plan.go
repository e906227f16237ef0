package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"keyfold/engine/failpoint"
)

// action is one kind of fault, or of everyday operation.
type action string

const (
	killWorker action = "kill -9 worker"
	killBroker action = "kill -9 broker"
	killStore  action = "kill -9 store"

	stopWorker action = "SIGSTOP worker" // and SIGCONT after a while
	stopBroker action = "SIGSTOP broker"
	stopStore  action = "SIGSTOP store"

	// Between one worker and its server; bytes are held, delayed, or the
	// connections closed.
	silenceBroker action = "blackhole to broker"
	silenceStore  action = "blackhole to store"
	slowBroker    action = "latency to broker"
	slowStore     action = "latency to store"
	cutBroker     action = "cut to broker"
	cutStore      action = "cut to store"

	loseReply   action = "lost reply"         // the store writes and hangs up
	failConcern action = "write concern"      // the store writes and cannot promise it
	failOver    action = "failover"           // writes no majority has are rolled back
	stepDown    action = "step down"          // no primary for a while
	alarm       action = "memory alarm"       // the broker takes nothing
	deleteMain  action = "delete queue"       // after a checkpoint, when nothing is in it
	deleteRetry action = "delete delay queue" // while it is empty

	// Of notifications: the API, a worker that has leased deferrals, PostgreSQL.
	killAPI    action = "kill -9 API"
	killPoller action = "kill -9 poller"
	killLedger action = "kill -9 PostgreSQL"

	// Of partitions: workers come and go for good, the stage is started again.
	addWorker   action = "add worker"
	dropWorker  action = "kill -9 worker for good"
	killStage   action = "kill -9 partition stage"
	repartition action = "setup --partitions"

	rewind    action = "rewind"         // all streams, to their first offsets
	terminate action = "SIGTERM worker" // which is started again
	scale     action = "scale"          // to For workers
	replay    action = "replay"         // dead letters that come back
	arm       action = "failpoint"      // a worker that dies there
)

// needsTestStore reports whether an action is done to the store's process or by
// its test controls.
func (a action) needsTestStore() bool {
	return slices.Contains([]action{killStore, stopStore, loseReply, failConcern, failOver, stepDown}, a)
}

// step is one action at its time. Which worker it meets is a number modulo
// those that run then: the same plan fits whatever the last fault left over.
type step struct {
	At    time.Duration
	Do    action
	Which int
	For   time.Duration // how long it lasts; 0 where it does not last
	Count int           // of workers, or of replies
	Point string        // failpoint to arm
}

func (s step) String() string {
	text := string(s.Do)
	if s.Point != "" {
		text += " " + s.Point
	}
	if s.Count > 0 {
		text += fmt.Sprintf(" x%d", s.Count)
	}
	if s.For > 0 {
		text += " for " + s.For.String()
	}
	return text
}

// mix is how often each action comes.
type mix map[action]int

// longMix is that of 45 minutes: 220 kills and what else goes wrong in a bad
// year.
var longMix = mix{
	killWorker: 200, killBroker: 11, killStore: 9,
	stopWorker: 24, stopBroker: 4, stopStore: 6,
	silenceBroker: 14, silenceStore: 10, slowBroker: 8, slowStore: 8, cutBroker: 10, cutStore: 10,
	loseReply: 40, failConcern: 8, failOver: 8, stepDown: 6,
	alarm: 4, deleteMain: 2, deleteRetry: 3,
	terminate: 20, scale: 8, replay: 4, arm: 26,
}

// rewinds is how often streams are set back in 45 minutes.
const rewinds = 6

// kills counts the kill -9 of a mix, without those by failpoints and of stages.
func (m mix) kills() (n int) {
	for _, a := range []action{killWorker, killBroker, killStore, killAPI, killPoller, killLedger} {
		n += m[a]
	}
	return n
}

// over returns the mix for another duration.
func (m mix) over(part float64) mix {
	scaled := mix{}
	for a, n := range m {
		scaled[a] = int(float64(n)*part + 0.5)
	}
	return scaled
}

// newPlan draws a plan of the mix over a duration: each action at even distances
// with jitter. It depends on its arguments only.
func newPlan(seed uint64, m mix, duration time.Duration, workers int) []step {
	return planThrough(seed, m, duration, workers, armable)
}

// planThrough is newPlan with the failpoints that arm goes through.
func planThrough(seed uint64, m mix, duration time.Duration, workers int, armable []string) []step {
	var plan []step
	actions := make([]action, 0, len(m))
	for a := range m {
		actions = append(actions, a)
	}
	slices.Sort(actions)
	r := rand.New(rand.NewPCG(seed, 0x736f616b))
	points := r.Perm(len(armable))
	for _, a := range actions {
		for i := range m[a] {
			slot := float64(duration) * 0.97 / float64(m[a])
			s := step{
				At:    time.Duration((float64(i) + r.Float64()) * slot).Round(time.Millisecond),
				Do:    a,
				Which: r.IntN(1 << 16),
				For:   lasting(r, a, duration),
			}
			switch a {
			case scale:
				s.Count = 1 + r.IntN(workers)
			case loseReply, failConcern:
				s.Count = 1 + r.IntN(3)
			case arm:
				s.Point = armable[points[i%len(points)]]
			}
			plan = append(plan, s)
		}
	}
	slices.SortStableFunc(plan, func(a, b step) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// armable are the points a worker can die at: a replay is no worker's.
var armable = slices.DeleteFunc(slices.Clone(failpoint.Names), func(name string) bool {
	return name == failpoint.ReplayConfirmed
})

// lasting draws how long an action lasts. Workers are stopped and cut off also
// for longer than the broker waits for their heartbeats: then it delivers what
// they hold to others, and they come back and believe they still hold it.
func lasting(r *rand.Rand, a action, duration time.Duration) time.Duration {
	between := func(from, to time.Duration) time.Duration {
		d := from + time.Duration(r.Int64N(int64(to-from)))
		return min(d, duration/8).Round(10 * time.Millisecond)
	}
	switch a {
	case stopWorker, silenceBroker:
		if r.IntN(3) == 0 {
			return between(24*time.Second, 36*time.Second)
		}
		return between(time.Second, 6*time.Second)
	case silenceStore:
		if r.IntN(3) == 0 {
			return between(11*time.Second, 16*time.Second) // past the driver's time limit
		}
		return between(time.Second, 6*time.Second)
	case slowBroker, slowStore:
		return between(5*time.Second, 20*time.Second)
	case stopBroker, stopStore, alarm, stepDown:
		return between(time.Second, 6*time.Second)
	case failOver, killBroker, killStore, killLedger, deleteMain, deleteRetry:
		return between(200*time.Millisecond, 2*time.Second)
	default:
		return 0
	}
}
