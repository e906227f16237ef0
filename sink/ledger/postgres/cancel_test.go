package postgres

import (
	"context"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// The server may get the request to end a statement behind its end: the connection of a
// statement whose context has ended takes no other one.
func TestACancelledStatementsConnectionIsNotUsedAgain(t *testing.T) {
	l, err := Open(newURL(t), 1)
	must.OK(t, err)
	defer l.Close()
	backend := func() (pid int) {
		t.Helper()
		must.OK(t, l.pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid))
		return pid
	}
	before := backend()
	if again := backend(); again != before {
		t.Fatalf("without a cancelled statement the backend changes from %d to %d", before, again)
	}
	ending, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := l.pool.Exec(ending, "SELECT pg_sleep(60)"); err == nil {
		t.Fatal("the statement was not ended")
	}
	if after := backend(); after == before {
		t.Error("the connection is used again")
	}
}
