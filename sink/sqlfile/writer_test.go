package sqlfile

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/conc/panics"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// newLog opens a file with a table that keeps the order of its rows.
func newLog(t *testing.T) *File {
	t.Helper()
	f := openNew(t)
	must.OK(t, f.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER NOT NULL UNIQUE) STRICT")
		return err
	}))
	return f
}

func insert(n int) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO log (n) VALUES (?)", n)
		return err
	}
}

// logged returns the rows of the log.
func logged(t *testing.T, f *File) (all []int) {
	t.Helper()
	rows, err := f.Reader().QueryContext(ctx, "SELECT n FROM log ORDER BY id")
	must.OK(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		must.OK(t, rows.Scan(&n))
		all = append(all, n)
	}
	must.OK(t, rows.Err())
	return all
}

// block holds the writer inside a function until the returned one is called.
func block(f *File) (release func()) {
	running, released := make(chan struct{}), make(chan struct{})
	f.Enqueue(func(*Tx) error {
		close(running)
		<-released
		return nil
	}, func(error) {})
	<-running
	return sync.OnceFunc(func() { close(released) })
}

// countCommits counts from now on. The writer must be blocked.
func countCommits(f *File) *int {
	n, commit := new(int), f.writer.commit
	f.writer.commit = func(c *connection) error {
		*n++
		return commit(c)
	}
	return n
}

// queued returns how many functions wait.
func queued(f *File) int {
	f.writer.mu.Lock()
	defer f.writer.mu.Unlock()
	return len(f.writer.queue)
}

// collector gathers answers in their order.
type collector struct {
	sync.WaitGroup
	order   []int // written by the writer only
	answers map[int]error
}

func (c *collector) enqueue(f *File, n int, fn func(*Tx) error) {
	c.Add(1)
	f.Enqueue(fn, func(err error) {
		if c.answers == nil {
			c.answers = map[int]error{}
		}
		c.order, c.answers[n] = append(c.order, n), err
		c.Done()
	})
}

func TestGroupCommitIsFirstInFirstOut(t *testing.T) {
	f := newLog(t)
	release := block(f)
	commits := countCommits(f)
	var c collector
	const n = 500
	for i := range n {
		c.enqueue(f, i, insert(i))
	}
	if waiting := queued(f); waiting != n {
		t.Errorf("%d functions wait, want %d", waiting, n)
	}
	release()
	c.Wait()
	if !slices.IsSorted(c.order) || len(c.order) != n {
		t.Error("answers came out of order")
	}
	if all := logged(t, f); len(all) != n || !slices.IsSorted(all) {
		t.Errorf("rows were written out of order: %v", all)
	}
	if *commits != 1 {
		t.Errorf("%d functions that waited together took %d commits, want 1", n+1, *commits)
	}
}

func TestGroupIsBoundedInBytes(t *testing.T) {
	f := newLog(t)
	release := block(f)
	commits := countCommits(f)
	var c collector
	const mebibyte = 1 << 20
	for i := range 2 * maxGroupBytes / mebibyte {
		c.enqueue(f, i, func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO log (n) VALUES (length(?))", make([]byte, mebibyte+i))
			return err
		})
	}
	release()
	c.Wait()
	if *commits != 2 {
		t.Errorf("twice the bound took %d commits, want 2", *commits)
	}
}

// TestErrorUndoesItsOwnFunction fails functions at every place of a group, in
// every way.
func TestErrorUndoesItsOwnFunction(t *testing.T) {
	boom := errors.New("boom")
	const perGroup = 6
	for _, failing := range [][]int{{0}, {1}, {5}, {0, 1, 2}, {1, 3, 5}, {0, 1, 2, 3, 4, 5}} {
		for name, fail := range map[string]func() error{
			"error": func() error { return boom },
			"panic": func() error { panic(boom) },
		} {
			t.Run(fmt.Sprint(name, failing), func(t *testing.T) {
				f := newLog(t)
				release := block(f)
				var c collector
				var want []int
				for i := range perGroup {
					fails := slices.Contains(failing, i)
					if !fails {
						want = append(want, i)
					}
					c.enqueue(f, i, func(tx *Tx) error {
						if err := insert(i)(tx); err != nil || !fails {
							return err
						}
						return fail()
					})
				}
				release()
				c.Wait()
				for i, err := range c.answers {
					if fails := slices.Contains(failing, i); fails != errors.Is(err, boom) || !fails && err != nil {
						t.Errorf("function %d was answered %v", i, err)
					}
				}
				if all := logged(t, f); !slices.Equal(all, want) {
					t.Errorf("rows %v, want %v", all, want)
				}
			})
		}
	}
}

func TestFirstFunctionOfAGroupFails(t *testing.T) {
	f := newLog(t)
	boom := errors.New("boom")
	err := f.Write(ctx, func(tx *Tx) error {
		must.OK(t, insert(1)(tx))
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("Write: %v", err)
	}
	err = f.Write(ctx, func(tx *Tx) error {
		must.OK(t, insert(2)(tx))
		var none []int
		_ = none[len(none)]
		return nil
	})
	var recovered *panics.ErrRecovered
	if !errors.As(err, &recovered) || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("a panic came back as %v", err)
	}
	must.OK(t, f.Write(ctx, insert(3)))
	if all := logged(t, f); !slices.Equal(all, []int{3}) {
		t.Errorf("rows %v, want [3]", all)
	}
}

func TestConstraintIsPermanent(t *testing.T) {
	f := newLog(t)
	must.OK(t, f.Write(ctx, insert(1)))
	if err := f.Write(ctx, insert(1)); engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != "document_rejected" {
		t.Errorf("a constraint is answered with %v", err)
	}
}

func TestContextEndsInTheQueue(t *testing.T) {
	f := newLog(t)
	release := block(f)
	defer release()
	cancellable, cancel := context.WithCancel(ctx)
	answer := make(chan error, 1)
	go func() { answer <- f.Write(cancellable, insert(1)) }()
	for queued(f) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	err := <-answer
	if !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrUnknown) {
		t.Errorf("withdrawn from the queue: %v, want the context's error", err)
	}
	release()
	must.OK(t, f.Write(ctx, insert(2)))
	if all := logged(t, f); !slices.Equal(all, []int{2}) {
		t.Errorf("rows %v: a withdrawn function ran", all)
	}
}

func TestContextEndsWhileRunning(t *testing.T) {
	f := newLog(t)
	cancellable, cancel := context.WithCancel(ctx)
	released := make(chan struct{})
	err := f.Write(cancellable, func(tx *Tx) error {
		cancel()
		<-released // until Write has returned
		return insert(1)(tx)
	})
	if !errors.Is(err, engine.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("ended while running: %v, want an unknown outcome", err)
	}
	close(released)
	must.OK(t, f.Write(ctx, insert(2)))
	if all := logged(t, f); !slices.Equal(all, []int{1, 2}) {
		t.Errorf("rows %v, want [1 2]", all)
	}
}

func TestQueryInAFunction(t *testing.T) {
	f := newLog(t)
	must.OK(t, f.Write(ctx, insert(1)))
	must.OK(t, f.Write(ctx, func(tx *Tx) error {
		must.OK(t, insert(2)(tx))
		rows, err := tx.Query("SELECT n FROM log WHERE n > ? ORDER BY n", 0)
		if err != nil {
			return err
		}
		for want := 1; want <= 2; want++ {
			var n int
			if !rows.Next() || rows.Scan(&n) != nil || n != want {
				t.Errorf("got %d, want %d: a function sees what was written before", n, want)
			}
		}
		return nil // leaves the rows open
	}))
	_, err := f.Reader().QueryContext(ctx, "DELETE FROM log")
	must.Fault(t, err, "store_not_writable", "permission")
	must.OK(t, f.Write(ctx, insert(3)))
}

func TestManyStatementTexts(t *testing.T) {
	f := newLog(t)
	for i := range 3 * maxStatements {
		must.OK(t, f.Write(ctx, func(tx *Tx) error {
			_, err := tx.Exec(fmt.Sprintf("INSERT INTO log (n) VALUES (%d)", i))
			return err
		}))
	}
	if n := len(f.writer.c.statements); n > maxStatements+5 {
		t.Errorf("%d statements are kept prepared", n)
	}
}

func TestCloseDrainsTheQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f := openAt(t, path)
	must.OK(t, f.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER NOT NULL UNIQUE) STRICT")
		return err
	}))
	release := block(f)
	var c collector
	for i := range 100 {
		c.enqueue(f, i, insert(i))
	}
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	release()
	must.OK(t, <-closed)
	c.Wait()
	for i, err := range c.answers {
		if err != nil {
			t.Errorf("function %d, queued before Close: %v", i, err)
		}
	}
	if err := f.Write(ctx, insert(1000)); !errors.Is(err, ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	late := make(chan error)
	f.Enqueue(insert(1000), func(err error) { late <- err }) // must not wait for done
	if err := <-late; !errors.Is(err, ErrClosed) {
		t.Errorf("Enqueue after Close: %v", err)
	}
	if _, err := f.Reader().Count(ctx, "SELECT count(*) FROM log"); err == nil {
		t.Error("a read after Close succeeded")
	}
	must.OK(t, f.Close())
	if all := logged(t, openAt(t, path)); len(all) != 100 {
		t.Errorf("%d rows after reopening, want 100", len(all))
	}
}

// TestReadsSeeWhatWasAcknowledged reads on every connection right after each
// write.
func TestReadsSeeWhatWasAcknowledged(t *testing.T) {
	f := newLog(t)
	var readers sync.WaitGroup
	for i := range 200 {
		must.OK(t, f.Write(ctx, insert(i)))
		for range readConnections {
			readers.Go(func() {
				if n, err := f.Reader().Count(ctx, "SELECT count(*) FROM log"); err != nil || n < int64(i+1) {
					t.Errorf("read %d rows of %d: %v", n, i+1, err)
				}
			})
		}
	}
	readers.Wait()
}
