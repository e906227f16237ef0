package partitioner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"keyfold/cmd/shutdown"
	"keyfold/engine"
	"keyfold/source/rabbit"
)

// runStage is a stage as a process of its own, with short times.
func runStage(dsn string) {
	p, err := New(Config{
		DSN: dsn, Names: rabbit.DefaultNames(), Identity: rabbit.ThisProcess("partition"), Lease: 3 * time.Second,
		Look: 50 * time.Millisecond, WaitMin: 20 * time.Millisecond, WaitMax: 100 * time.Millisecond,
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
func TestAFrozenStagePublishesNothing(t *testing.T) {
	s := newSite(t)
	for slot := range engine.Slots { // no event can be published
		if err := s.channel.QueueUnbind(s.names.PartitionQueue(slot%partitions), s.names.SlotKey(slot), s.names.Slots, nil); err != nil {
			t.Fatal(err)
		}
	}
	const n = 900
	for i := range n {
		s.publish(s.foreign(i%50+1, i))
	}
	frozen := exec.Command(os.Args[0])
	frozen.Env = append(os.Environ(), frozenDSN+"="+s.dsn)
	log := &lockedBuffer{}
	frozen.Stderr = log
	if err := frozen.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = frozen.Process.Kill()
		_ = frozen.Wait()
		if t.Failed() {
			t.Logf("its log:\n%s", log)
		}
	}()
	await(t, "the process holds all", func() bool { return s.depth(s.names.CommonQueue()) == 0 })
	if err := frozen.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, "the broker has them again", func() bool { return s.depth(s.names.CommonQueue()) == n })
	time.Sleep(4 * time.Second) // frozen for longer than three heartbeats
	s.setUp(partitions)
	other := s.run()
	await(t, "another stage has published them", func() bool { return other.acked() == n })
	if err := frozen.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := other.stop(); err != nil {
		t.Error(err)
	}
	s.publish(s.foreign(1, n))
	queues := s.names.PartitionQueue
	await(t, "the thawed process goes on with new ones", func() bool {
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
