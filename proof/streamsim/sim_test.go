package streamsim

import (
	"fmt"
	"testing"

	"keyfold/proof/schedule"
)

// Environment variables of the schedules.
const (
	envNumber    = "KEYFOLD_SIM_STREAM"           // the schedule TestSchedule replays
	envSchedules = "KEYFOLD_SIM_STREAM_SCHEDULES" // how many TestSchedules runs
)

// TestSchedule replays the schedule that KEYFOLD_SIM_STREAM names.
func TestSchedule(t *testing.T) {
	w := newWorld(schedule.Number(t, envNumber, 1))
	if testing.Verbose() {
		w.trace = t.Logf
	}
	if err := w.run(); err != nil {
		t.Fatalf("%v\n%v", err, w)
	}
	t.Logf("%d events in %d steps, %d crashes", len(w.events), w.step, w.crashes)
}

// TestSchedules runs many schedules.
//
// Promise(streams/marks): An event of a stream is folded once, whatever is read again: after kills,
// beside zombies, from lost or rewound positions, with one to four ids kept.
// Figure: 200,000 schedules before a change lands, 20,000 in every `make test`
func TestSchedules(t *testing.T) {
	c := schedule.Campaign{Count: schedule.Number(t, envSchedules, schedulesByDefault), Replay: func(number uint64) string {
		return fmt.Sprintf("%s=%d go test -run 'TestSchedule$' -v ./proof/streamsim", envNumber, number)
	}}
	c.Run = func(_ *testing.T, number uint64) error { return newWorld(number).run() }
	c.Go(t)
}
