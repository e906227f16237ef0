//go:build failpoints

package main

import (
	"errors"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/failpoint"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
)

// A stage that is ended, or meets an error, at each boundary of an event's way loses
// nothing.
//
// Promise(partitions/stage-killed)
func TestPartitionAtItsFailpoints(t *testing.T) {
	points := append([]string{failpoint.BeforeAck}, failpoint.PartitionNames...)
	for _, name := range points {
		for _, action := range []string{"exit:2", "error:2/3"} {
			t.Run(name+"="+action, func(t *testing.T) {
				p := newParted(t)
				bodies := sampleOf(t, 600)
				for i := range 3 {
					p.publish(t, bodies[200*i:200*i+199]...)
					_, kill, ended := p.stage(t, "KEYFOLD_FAILPOINTS="+name+"="+action)
					// Two batches at least, so that the point is met twice.
					p.handled(t, ended)
					p.publish(t, bodies[200*i+199])
					if action == "exit:2" {
						awaitEnd(t, ended)
					}
					p.handled(t, ended)
					kill()
				}
				p.finish(t)
				p.came(t, bodies)
			})
		}
	}
}

// handled waits until a stage has acknowledged all there is, or has ended.
func (p *parted) handled(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	uri, err := amqp.ParseURI(p.dsn)
	must.OK(t, err)
	eventually(t, "the stage acknowledges all there is, or ends", func() error {
		depths, err := rabbittest.Shared(t).Depths(uri.Vhost)
		if n := depths[p.names.CommonQueue()]; err != nil || n > 0 && !hasEnded(ended) {
			return fmt.Errorf("%d are left: %w", n, err)
		}
		return nil
	})
}

func hasEnded(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// awaitEnd waits until a stage has met its failpoint.
func awaitEnd(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	eventually(t, "the stage ends", func() error {
		if !hasEnded(ended) {
			return errors.New("it goes on")
		}
		return nil
	})
}
