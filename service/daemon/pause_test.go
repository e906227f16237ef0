package daemon

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted counts how often it is paused and resumed.
type counted struct{ paused, resumed int }

func (c *counted) Pause()  { c.paused++ }
func (c *counted) Resume() { c.resumed++ }

// Two reasons to pause overlap: the consumer is resumed when the last one is gone.
func TestPauseReasonsAreIndependent(t *testing.T) {
	var p pause
	var c counted
	for _, step := range []struct {
		reason          reason
		on              bool
		paused, resumed int
	}{
		{storeAway, true, 1, 0},
		{storeAway, true, 1, 0},
		{badConfiguration, true, 1, 0},
		{storeAway, false, 1, 0},
		{badConfiguration, false, 1, 1},
		{badConfiguration, false, 1, 1},
	} {
		if p.set(&c, step.reason, step.on); c.paused != step.paused || c.resumed != step.resumed {
			t.Errorf("after %+v: paused %d times, resumed %d times", step, c.paused, c.resumed)
		}
	}
}
