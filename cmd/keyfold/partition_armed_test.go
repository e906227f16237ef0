//go:build failpoints

package main

import (
	"testing"
	"time"

	"keyfold/engine/failpoint"
)

// A stage that is ended, or meets an error, at each boundary of an event's way loses
// nothing.
func TestPartitionAtItsFailpoints(t *testing.T) {
	points := append([]string{failpoint.BeforeAck}, failpoint.PartitionNames...)
	for _, name := range points {
		for _, action := range []string{"exit:2", "error:2/3"} {
			t.Run(name+"="+action, func(t *testing.T) {
				p := newParted(t)
				bodies := sampleOf(t, 600)
				deaths := 0
				for i := range 3 {
					p.publish(t, bodies[200*i:200*i+199]...)
					_, kill, ended := p.stage(t, "KEYFOLD_FAILPOINTS="+name+"="+action)
					// Two batches at least, so that the point is met twice.
					time.Sleep(300 * time.Millisecond)
					p.publish(t, bodies[200*i+199])
					select {
					case <-ended:
						deaths++
					case <-time.After(3 * time.Second):
					}
					kill()
				}
				p.finish(t)
				p.came(t, bodies)
				if action == "exit:2" && deaths == 0 {
					t.Error("the point was never met: the test proves nothing")
				}
			})
		}
	}
}
