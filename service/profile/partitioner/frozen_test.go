package partitioner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/shutdown"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
)

// runStage is a stage as a process of its own, with short times. It stops itself between
// the arrival of its first message and the publication.
func runStage(dsn string) {
	var stop sync.Once
	p, err := New(Config{
		DSN: dsn, Names: rabbit.DefaultNames(), Identity: rabbit.ThisProcess("partition"), Lease: 3 * time.Second,
		Look: 50 * time.Millisecond, WaitMin: 20 * time.Millisecond, WaitMax: 100 * time.Millisecond,
		Follow: func(of *engine.Trace, _ string, s engine.Settler) (*engine.Trace, engine.Settler) {
			stop.Do(func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
			return of, s
		},
		Timing: rabbit.Timing{Heartbeat: time.Second, BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond},
	}, shutdown.NewClock(time.Minute), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err == nil {
		err = p.Run(context.Background())
	}
	slog.Error("the stage ended", slog.Any("error", err))
	os.Exit(1)
}

// A process that is stopped between the arrival of messages and their publication, and
// goes on after the broker has given them to another stage, publishes none of them. Those
// that had reached its connection before are none of its new messages.
//
// Promise(redelivery/partition-frozen)
func TestAFrozenStagePublishesNothing(t *testing.T) {
	s := newSite(t)
	const n = 900
	s.publishForeign(50, 0, n)
	frozen := exec.Command(os.Args[0])
	frozen.Env = append(os.Environ(), frozenDSN+"="+s.dsn)
	log := &logtest.Buffer{}
	frozen.Stderr = log
	must.OK(t, frozen.Start())
	defer func() {
		_ = frozen.Process.Kill()
		_ = frozen.Wait()
		if t.Failed() {
			t.Logf("its log:\n%s", log)
		}
	}()
	must.Hold(t, "the process holds all", func() bool { return s.depth(s.names.CommonQueue()) == 0 })
	must.Hold(t, "the broker has them again", func() bool { return s.depth(s.names.CommonQueue()) == n })
	time.Sleep(4 * time.Second) // frozen for longer than three heartbeats
	other := s.run()
	must.Hold(t, "another stage has published them", func() bool { return other.acked() == n })
	must.OK(t, frozen.Process.Signal(syscall.SIGCONT))
	if err := other.stop(); err != nil {
		t.Error(err)
	}
	s.publish(s.foreign(1, n))
	queues := s.names.PartitionQueue
	must.Hold(t, "the thawed process goes on with new ones", func() bool {
		all := 0
		for i := range partitions {
			all += s.depth(queues(i))
		}
		return all > n
	})
	for i := range partitions {
		for _, d := range s.take(queues(i), 0) {
			if d.Headers[rabbit.HeaderFirstSeen] == nil && d.MessageId != fmt.Sprint("m", n) {
				t.Errorf("%s came without a bound", d.MessageId)
			}
		}
	}
}
