package main

import (
	"context"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/proof/stack"
)

func TestMain(m *testing.M) { process.Main(m) } // looks for leaked goroutines too

// seed is that of the runs in CI: one plan that is known, so that a red run is
// the change's doing. The long run draws another each time.
const seed = 5

// shortMix is that of a test of half a minute.
var shortMix = mix{
	killWorker: 3, killBroker: 1, killStore: 1,
	stopWorker: 1, silenceBroker: 1, silenceStore: 1, slowStore: 1, cutBroker: 1, cutStore: 1,
	loseReply: 1, failConcern: 1, failOver: 1, alarm: 1, deleteMain: 1, deleteRetry: 1,
	terminate: 1, scale: 1, replay: 1, arm: 1,
}

// inLong is whether the runs are in full, with real logs, as `make soak` and CI ask for.
var inLong = os.Getenv("KEYFOLD_SOAK") != ""

// programs is a folder with what all runs of the test binary use.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = process.TempDir(); err == nil {
		err = stack.Build(context.Background(), dir, failpoints...)
	}
	return dir, err
})

// long skips a run that `make test` has no time for.
func long(t *testing.T) {
	t.Helper()
	if !inLong {
		t.Skip("a run of servers of its own: set KEYFOLD_SOAK=1")
	}
}

// runInTest runs beside the other ones: each has its own servers, and mostly waits.
func runInTest(t *testing.T, change func(*settings)) *result {
	t.Helper()
	t.Parallel()
	built, err := programs()
	must.OK(t, err)
	c := settings{
		Programs: built,
		Seed:     seed, Duration: 30 * time.Second, Workers: 2, Rate: 60, Dimensions: 64, Short: 10 * time.Second, Dir: t.TempDir(), Out: t.Output(),
	}
	if inLong {
		c.Duration, c.Data = time.Minute, os.Getenv("KEYFOLD_TEST_DATA")
	}
	change(&c)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	r, err := run(ctx, c)
	if r != nil {
		r.report()
	}
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	return r
}

// Half a minute of everything that goes wrong, in its order of the seed; in the long form
// a minute, with more kills.
//
// Promise(proof/soak): Real processes of the profile application under seeded faults (kills, pauses,
// silent links, failovers, alarms) lose and double nothing.
// Figure: 45 min: 220 kill -9, 135,000 messages, 13,862 redelivered, 19,513 conflicts, 15 of 15
// failpoints: 0 lost, 0 doubled
func TestShortSoak(t *testing.T) {
	kinds := maps.Clone(shortMix)
	if inLong {
		kinds[killWorker], kinds[loseReply], kinds[arm] = 7, 3, 2
	}
	r := runInTest(t, func(c *settings) { c.Mix = kinds })
	s := r.soak
	if n := s.counts[killWorker] + s.counts[killBroker] + s.counts[killStore]; n != kinds.kills() {
		t.Errorf("%d kills, want %d", n, kinds.kills())
	}
	if s.fleet.total("keyfold_rabbitmq_redelivered_total") == 0 {
		t.Error("no fault left anything to deliver again: the run proves nothing")
	}
	if s.fleet.total("keyfold_retries_total") == 0 {
		t.Error("no event was ever retried: the run proves nothing of retries")
	}
	if s.fleet.total(balanced) == 0 {
		t.Error("no page of metrics was read")
	}
	if len(s.ledger.poison) == 0 || s.ledger.oracle.Repeated == 0 {
		t.Errorf("%d poison, %d repeated: the traffic is too tame", len(s.ledger.poison), s.ledger.oracle.Repeated)
	}
}

// The same with half of the events in streams, which are set back in the middle.
//
// Promise(streams/soak): Workers that read streams and a queue lose and double nothing under kills, pauses, outages and rewinds.
// Figure: 45 min over 8 streams: 220 kill -9, 135,020 messages, 6 rewinds, 247,345 events read again: 0 lost, 0 doubled
func TestShortStreamsSoak(t *testing.T) {
	long(t)
	kinds := maps.Clone(shortMix)
	kinds[killWorker], kinds[rewind] = 7, 2
	r := runInTest(t, func(c *settings) { c.Mix, c.Streams = kinds, 8 })
	f := r.soak.fleet
	if f.total("keyfold_stream_read_total") == 0 || f.total("keyfold_replayed_events_total") == 0 {
		t.Error("nothing was read of streams, or nothing again: the run proves nothing")
	}
}

// Every failpoint, one after the other: a worker dies there, or an error comes
// from there.
//
// Promise(proof/soak)
func TestEveryFailpoint(t *testing.T) {
	long(t)
	r := runInTest(t, func(c *settings) { c.Directed, c.AllPoints, c.Workers = true, true, 1 })
	if len(r.missed) != 0 {
		t.Errorf("never met: %v", r.missed)
	}
}

// One user makes half of all events, and workers are killed while they drain the
// backlog: more events than a profile ever had to remember are delivered again.
//
// Promise(redelivery/flood, proof/soak)
func TestFloodedUser(t *testing.T) {
	long(t)
	r := runInTest(t, func(c *settings) { c.Scenario, c.Workers, c.Kills = "kills", 3, 12 })
	s := r.soak
	if n := len(s.ledger.events[hotUser]); n < 20_000 {
		t.Errorf("%d events of the busy user, want at least 20000", n)
	}
	if n := s.counts[killWorker]; n != s.Kills {
		t.Errorf("%d kills, want %d", n, s.Kills)
	}
	if s.fleet.total("keyfold_rabbitmq_redelivered_total") < 1000 {
		t.Error("hardly anything was delivered again: the run proves nothing")
	}
}

// A store that refuses every write, and a write whose outcome stays unknown while
// others fold events of its user: nothing is dead-lettered, nothing twice.
//
// Promise(proof/soak)
func TestScenariosOfTheStore(t *testing.T) {
	long(t)
	for name, rate := range map[string]int{"refusals": 200, "unknown": 60} {
		t.Run(name, func(t *testing.T) {
			runInTest(t, func(c *settings) {
				c.Scenario, c.Workers, c.Duration, c.Rate, c.Data = name, 3, 15*time.Second, rate, ""
			})
		})
	}
}
