package sqlfile

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// TestFailedCommitIsUnknown lets a commit fail after the fact and before it.
func TestFailedCommitIsUnknown(t *testing.T) {
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprint("written=", written), func(t *testing.T) {
			f := newLog(t)
			release := block(f)
			lost := errors.New("fsync: input/output error")
			var c collector
			c.enqueue(f, 1, func(tx *Tx) error {
				f.writer.commit = func(c *connection) error {
					f.writer.commit = (*connection).commit
					if written {
						must.OK(t, c.commit())
					}
					return lost
				}
				return insert(1)(tx)
			})
			c.enqueue(f, 2, insert(2))
			boom := errors.New("boom")
			c.enqueue(f, 3, func(*Tx) error { return boom })
			release()
			c.Wait()
			for i := 1; i <= 2; i++ {
				if err := c.answers[i]; !errors.Is(err, engine.ErrUnknown) || !errors.Is(err, lost) {
					t.Errorf("function %d of a failed commit: %v, want an unknown outcome", i, err)
				}
			}
			if err := c.answers[3]; !errors.Is(err, boom) || errors.Is(err, engine.ErrUnknown) {
				t.Errorf("a function that failed by itself: %v", err)
			}
			must.OK(t, f.Write(ctx, insert(4)))
			want := []int{4}
			if written {
				want = []int{1, 2, 4}
			}
			if all := logged(t, f); !slices.Equal(all, want) {
				t.Errorf("rows %v, want %v", all, want)
			}
		})
	}
}

// TestFullDisk lets SQLite end the transaction by itself in the middle of a
// group: nothing of the group may be kept, and nothing after it alone.
func TestFullDisk(t *testing.T) {
	f := newLog(t)
	release := block(f)
	var c collector
	c.enqueue(f, 0, insert(0))
	c.enqueue(f, 1, func(tx *Tx) error {
		if _, err := tx.Exec("PRAGMA max_page_count = 1"); err != nil { // as low as the file allows
			return err
		}
		_, err := tx.Exec("CREATE TABLE big AS SELECT zeroblob(1000000) AS b")
		if err == nil {
			t.Error("the file is not full")
		}
		if _, again := tx.Exec("INSERT INTO log (n) VALUES (1)"); again == nil {
			t.Error("a statement ran outside the transaction")
		}
		return nil // hides the error, which must not help
	})
	c.enqueue(f, 2, insert(2))
	release()
	c.Wait()
	for i := range 2 {
		err := c.answers[i]
		if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrUnknown) {
			t.Errorf("function %d: %v, want a transient error", i, err)
		}
	}
	must.OK(t, c.answers[2]) // the next group's
	if all := logged(t, f); !slices.Equal(all, []int{2}) {
		t.Errorf("rows %v, want [2]", all)
	}
}

// TestFunctionEndsTheTransaction breaks the rule that functions leave it alone.
func TestFunctionEndsTheTransaction(t *testing.T) {
	for _, verb := range []string{"COMMIT", "ROLLBACK"} {
		f := newLog(t)
		release := block(f)
		var c collector
		c.enqueue(f, 0, insert(0))
		c.enqueue(f, 1, func(tx *Tx) error {
			_, err := tx.Exec(verb)
			return err
		})
		release()
		c.Wait()
		for i, err := range c.answers {
			if !errors.Is(err, engine.ErrUnknown) {
				t.Errorf("%s: function %d: %v, want an unknown outcome", verb, i, err)
			}
		}
		must.OK(t, f.Write(ctx, insert(7)))
	}
}

// TestOtherProcessWrites holds the file's lock until the writer gives up.
func TestOtherProcessWrites(t *testing.T) {
	f := newLog(t)
	must.OK(t, f.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec("PRAGMA busy_timeout = 10")
		return err
	}))
	name, err := dsn(f.path, modeWrite)
	must.OK(t, err)
	other, err := sql.Open(driverName, name)
	must.OK(t, err)
	other.SetMaxOpenConns(1)
	_, err = other.Exec("BEGIN IMMEDIATE")
	must.OK(t, err)

	err = f.Write(ctx, insert(1))
	if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrUnknown) {
		t.Errorf("the file is locked: %v, want a transient error", err)
	}
	_, err = other.Exec("ROLLBACK")
	must.OK(t, err)
	must.OK(t, other.Close())
	must.OK(t, f.Write(ctx, insert(2)))
	if all := logged(t, f); !slices.Equal(all, []int{2}) {
		t.Errorf("rows %v, want [2]", all)
	}
}
