package sim

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/proof/schedule"
)

// Environment variables of the schedules.
const (
	envNumber     = "KEYFOLD_SIM"           // the schedule TestSchedule replays
	envDeepNumber = "KEYFOLD_SIM_DEEP"      // or this one, as a deep one
	envSchedules  = "KEYFOLD_SIM_SCHEDULES" // how many TestSchedules runs
	envDeep       = "KEYFOLD_SIM_DEEPS"     // how many TestDeepSchedules runs
)

// run runs one schedule in a bubble of its own.
func run(t *testing.T, number uint64, k kind, out io.Writer) (r Report) {
	synctest.Test(t, func(*testing.T) { r = newSimulation(number, k, out).run() })
	return r
}

// TestSchedule replays the schedule that KEYFOLD_SIM or KEYFOLD_SIM_DEEP names; with
// -v it prints all that happens, and when.
func TestSchedule(t *testing.T) {
	var out io.Writer
	if testing.Verbose() {
		out = os.Stdout
	}
	k, n := kind{}, schedule.Number(t, envNumber, 1)
	if os.Getenv(envDeepNumber) != "" {
		k.deep, n = true, schedule.Number(t, envDeepNumber, 1)
	}
	r := run(t, n, k, out)
	t.Logf("%d events, %d lines in %v of virtual time, hash %016x", r.Events, r.Lines, r.Time, r.Hash)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
}

// TestSchedules runs many schedules, each on its own, as many at once as there are
// processors.
//
// Promise(proof/sim): Short lives of one to three workers in virtual time, each replayable by its
// number, equal the oracle.
// Figure: 10,000 schedules before a change lands, 150 in every `make test`
// Promise(redelivery/wrong-clock)
func TestSchedules(t *testing.T) {
	many(t, kind{}, schedule.Number(t, envSchedules, schedulesByDefault))
}

// TestDeepSchedules runs schedules whose profiles go through sink/mongodb and the
// driver to a test server.
//
// Promise(proof/sim)
func TestDeepSchedules(t *testing.T) {
	many(t, kind{deep: true}, schedule.Number(t, envDeep, deepByDefault))
}

func many(t *testing.T, k kind, count uint64) {
	var events, virtual, dropped atomic.Uint64
	c := schedule.Campaign{Count: count, Replay: k.replay}
	c.Run = func(t *testing.T, number uint64) error {
		r := run(t, number, k, nil)
		events.Add(uint64(r.Events))
		virtual.Add(uint64(r.Time))
		if r.Dropped {
			dropped.Add(1)
		}
		return r.Err
	}
	began := time.Now()
	c.Go(t)
	t.Logf("%d schedules from %d on, %d events, %v of virtual time in %v",
		c.Done.Load(), c.First, events.Load(), time.Duration(virtual.Load()).Round(time.Second), time.Since(began).Round(time.Second))
	// Not where the busy user was erased, or its profile has room for all its events.
	if done := c.Done.Load(); done >= 100 && dropped.Load() < done*6/10 {
		t.Errorf("profiles dropped ids in %d of %d schedules only: that old ids are not needed was hardly tested", dropped.Load(), done)
	}
}

func (k kind) replay(number uint64) string {
	variable := envNumber
	if k.deep {
		variable = envDeepNumber
	}
	return fmt.Sprintf("%s=%d go test -run 'TestSchedule$' -v ./proof/sim", variable, number)
}

// TestReplay runs schedules until they repeat: see [schedule.Repeat].
//
// Promise(proof/sim)
func TestReplay(t *testing.T) {
	schedule.Repeat(t, replays, func(number uint64) uint64 {
		return run(t, number, kind{}, nil).Hash
	})
}
