package notifysim

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/proof/schedule"
)

// Environment variables of the schedules.
const (
	envNumber    = "KEYFOLD_SIM_NOTIFY"           // the schedule that TestSchedule replays
	envSchedules = "KEYFOLD_SIM_NOTIFY_SCHEDULES" // how many TestSchedules runs
)

// run runs one schedule in a bubble of its own.
func run(t *testing.T, number uint64, bug modelBug, out io.Writer) (r Report) {
	synctest.Test(t, func(*testing.T) { r = newSimulation(number, bug, out).run() })
	return r
}

// TestSchedule replays the schedule that KEYFOLD_SIM_NOTIFY names; with -v it prints all
// that happens, and when.
func TestSchedule(t *testing.T) {
	var out io.Writer
	if testing.Verbose() {
		out = os.Stdout
	}
	r := run(t, schedule.Number(t, envNumber, 1), modelBug{}, out)
	t.Logf("%d events, %d lines in %v of virtual time, hash %016x, %+v", r.Events, r.Lines, r.Time, r.Hash, r.Counts)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
}

// TestSchedules runs many schedules, each on its own, as many at once as there are
// processors.
//
// Promise(notify/clocks): With workers' clocks up to 2 s apart a user's decided_at never runs
// backwards, and caps and turns hold.
// Promise(proof/notifysim): Short lives of one to three notifiers in virtual time over one ledger
// break no law and equal the oracle.
// Figure: 40,000 schedules, 0 laws broken; 3,000 before a change lands
// Promise(notify/decided-once, notify/killed-before-commit, notify/killed-before-mark)
// Promise(notify/lost-answer, notify/changed-amid, notify/expiry, notify/leases, notify/late-item)
// Promise(notify/one-sweeps, notify/aliases)
func TestSchedules(t *testing.T) {
	var (
		mu      sync.Mutex
		sum     counts
		events  int
		virtual time.Duration
	)
	c := schedule.Campaign{Count: schedule.Number(t, envSchedules, schedulesByDefault)}
	c.Replay = func(number uint64) string {
		return fmt.Sprintf("%s=%d go test -run 'TestSchedule$' -v ./proof/notifysim", envNumber, number)
	}
	c.Run = func(t *testing.T, number uint64) error {
		r := run(t, number, modelBug{}, nil)
		mu.Lock()
		defer mu.Unlock()
		sum.add(r.Counts)
		events, virtual = events+r.Events, virtual+r.Time
		return r.Err
	}
	began := time.Now()
	c.Go(t)
	t.Logf("%d schedules from %d on, %d events, %v of virtual time in %v: %+v",
		c.Done.Load(), c.First, events, virtual.Round(time.Second), time.Since(began).Round(time.Second), sum)
	if missed := sum.missed(); c.Done.Load() >= 400 && len(missed) > 0 {
		t.Errorf("no schedule has met %v: what they are for was not tested", missed)
	}
}

// TestReplay runs schedules until they repeat: see [schedule.Repeat].
//
// Promise(proof/notifysim)
func TestReplay(t *testing.T) {
	schedule.Repeat(t, replays, func(number uint64) uint64 {
		return run(t, number, modelBug{}, nil).Hash
	})
}
