package inbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

func TestVerdictsReachTheFile(t *testing.T) {
	b := newBench(t)
	ds := b.add(t, events(1, 0, 7)...)
	for i, v := range []engine.Verdict{
		{Outcome: engine.Folded},
		{Outcome: engine.Duplicate},
		{Outcome: engine.ProductMissing, Err: engine.ErrMissing},
		{Outcome: engine.UserErased},
		{Outcome: engine.Dead, Reason: "zero_vector", Err: errors.New("vector has length zero")},
		{Outcome: engine.Unsettled, Err: errors.New("stopping")},
		{Outcome: engine.Dead},
	} {
		ds[i].Settler.Settle(v)
	}
	b.idle(t)
	got, err := Last(context.Background(), b.ports.Reader, 1, 10)
	must.OK(t, err)
	for i, want := range []State{StateFolded, StateDuplicate, StateProductMissing, StateUserErased, StateDead, StatePending, StateDead} {
		if e := got[len(got)-1-i]; e.State != want || (e.SettledAt == 0) != (want == StatePending) {
			t.Errorf("event %d is %s at %d, want %s", i, e.State, e.SettledAt, want)
		}
	}
	letters := b.letters(t)
	if len(letters) != 2 || letters[0].Reason != "zero_vector" || letters[0].Detail != "vector has length zero" ||
		letters[0].MessageID != ds[4].Event.MessageID || letters[0].UserID != 1 || string(letters[0].Body) != string(event(1, 4).Body) ||
		letters[1].Reason != "error" {
		t.Errorf("letters %+v", letters)
	}
	s := b.Stats()
	if s.Folded != 1 || s.Duplicate != 1 || s.ProductMissing != 1 || s.UserErased != 1 || s.Dead["zero_vector"] != 1 {
		t.Errorf("stats %+v", s)
	}
}

// The invariant: whatever a user's batch left behind when its verdicts were
// given is in the file before that user's next write.
func TestMarksComeBeforeTheUsersNextWrite(t *testing.T) {
	b := newBench(t)
	const users, batches, size = 16, 30, 5
	var late atomic.Int64
	var all sync.WaitGroup
	for user := 1; user <= users; user++ {
		all.Go(func() {
			for n := range batches {
				write := func(tx Tx) error {
					var pending int64
					err := queryRow(tx.Query, []any{&pending}, `SELECT count(*) FROM inbox WHERE user_id = ? AND state = 0`, user)
					late.Add(max(0, pending-size)) // this batch is not settled yet
					return err
				}
				ds := b.add(t, events(user, n*size, size)...)
				if err := b.writer.Write(context.Background(), write); err != nil {
					t.Error(err)
				}
				settle(ds, engine.Folded)
			}
		})
	}
	all.Wait()
	b.idle(t)
	if n := late.Load(); n != 0 {
		t.Errorf("%d events were folded and pending at their user's next write", n)
	}
	if s := b.Stats(); s.Folded != users*batches*size {
		t.Errorf("%d folded", s.Folded)
	}
}

// scripted is a writer that queues and runs functions when it is told to.
type scripted struct {
	mu   sync.Mutex
	jobs []job
}

func (s *scripted) Enqueue(fn func(Tx) error, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = append(s.jobs, job{fn, done})
}

func (s *scripted) Write(context.Context, func(Tx) error) error { return errors.ErrUnsupported }

func (s *scripted) take() []job {
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := s.jobs
	s.jobs = nil
	return jobs
}

// One function takes everything collected by the time it runs, and a verdict
// after that has a function of its own before Settle returns.
func TestOneFunctionTakesAllCollectedMarks(t *testing.T) {
	b := newBench(t)
	ds := b.add(t, events(1, 0, 10)...)
	s := &scripted{}
	real := b.ports.Writer
	b.ports.Writer = s
	run := func(want int) {
		t.Helper()
		jobs := s.take()
		if len(jobs) != 1 {
			t.Fatalf("%d functions queued, want 1", len(jobs))
		}
		must.OK(t, real.Write(context.Background(), jobs[0].fn))
		if n := b.pending(t); n != want {
			t.Errorf("%d pending, want %d", n, want)
		}
		jobs[0].done(nil)
	}
	settle(ds[:6], engine.Folded)
	run(4)
	settle(ds[6:7], engine.Folded)
	run(3)

	// A verdict given between a function's run and its commit is not in it.
	settle(ds[7:8], engine.Folded)
	first := s.take()[0]
	err := real.Write(context.Background(), func(tx Tx) error {
		err := first.fn(tx)
		settle(ds[8:], engine.Folded)
		return err
	})
	if n := b.pending(t); err != nil || n != 2 {
		t.Fatalf("%d pending, want 2; %v", n, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if b.Idle(ctx) == nil {
		t.Error("idle before the marks are durable")
	}
	first.done(nil)
	run(0)
	b.idle(t)
}

func TestFailedMarksAreKept(t *testing.T) {
	b := newBench(t)
	var failures atomic.Int64
	b.writer.setCommit(nil)
	ds := b.add(t, events(1, 0, 40)...)
	b.writer.setCommit(func() error {
		if failures.Add(1) <= 7 {
			return fmt.Errorf("failure %d", failures.Load())
		}
		return nil
	})
	for i, d := range ds {
		o := engine.Verdict{Outcome: engine.Folded}
		if i%4 == 0 {
			o = engine.Verdict{Outcome: engine.Dead, Reason: "zero_vector"}
		}
		d.Settler.Settle(o)
	}
	b.idle(t)
	if n := b.pending(t); n != 0 {
		t.Errorf("%d are still pending", n)
	}
	letters := b.letters(t)
	if len(letters) != 10 {
		t.Fatalf("%d letters, want 10", len(letters))
	}
	for _, l := range letters {
		if l.Times != 1 {
			t.Errorf("a letter counts %d times: a rolled back transaction left something", l.Times)
		}
	}
	if failures.Load() < 8 {
		t.Error("nothing failed")
	}
}

// A commit may succeed and be reported as failed: writing again changes nothing.
func TestMarksMayBeWrittenTwice(t *testing.T) {
	b := newBench(t)
	ds := b.add(t, events(1, 0, 2)...)
	m := []mark{{seq: 1, state: StateDead, reason: "zero_vector"}, {seq: 2, state: StateFolded}}
	for range 2 {
		err := b.writer.Write(context.Background(), func(tx Tx) error { return writeMarks(tx, m, ds[0].Event.OccurredAt.Time()) })
		must.OK(t, err)
	}
	if l := b.letters(t); len(l) != 1 || l[0].Times != 1 || b.pending(t) != 0 {
		t.Errorf("letters %+v", l)
	}
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	b := newBench(t)
	ds := b.add(t, events(1, 0, 2)...)
	b.writer.close()
	settle(ds, engine.Folded) // refused on this very goroutine
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close of an inbox that cannot write: %v", err)
	}
	if n := b.pending(t); n != 2 {
		t.Errorf("%d pending, want 2", n)
	}
}

// A function that is refused before it ran is queued again after a pause, and
// at once by the next verdict.
func TestRefusedMarkFunctionIsQueuedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	synctest.Test(t, func(t *testing.T) {
		b := start(t, path, patient, nil)
		defer b.stop()
		ds := b.add(t, events(1, 0, 2)...)
		s := &scripted{}
		b.ports.Writer = s
		settle(ds[:1], engine.Folded)
		s.take()[0].done(errWriterClosed)
		settle(ds[1:], engine.Folded)
		jobs := s.take()
		if len(jobs) != 1 {
			t.Fatalf("the next verdict queued %d functions", len(jobs))
		}
		jobs[0].done(errWriterClosed)
		time.Sleep(markPause)
		synctest.Wait()
		if jobs = s.take(); len(jobs) != 1 {
			t.Fatalf("%d functions queued after the pause", len(jobs))
		}
		must.OK(t, b.writer.Write(context.Background(), jobs[0].fn))
		jobs[0].done(nil)
		b.idle(t)
		if n := b.pending(t); n != 0 {
			t.Errorf("%d pending", n)
		}
	})
}
