package outbox

import (
	"context"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
)

// The server may get the request to end a statement behind its end: the connection of a
// statement whose context has ended takes no other one.
func TestACancelledStatementsConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	d, err := Open(server.URL(server.Database(t, "")))
	must.OK(t, err)
	defer d.Close()
	d.pool.SetMaxOpenConns(1)
	backend := func() (pid int) {
		t.Helper()
		must.OK(t, d.pool.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		return pid
	}
	before := backend()
	if again := backend(); again != before {
		t.Fatalf("without a cancelled statement the backend changes from %d to %d", before, again)
	}
	ending, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.pool.ExecContext(ending, "SELECT pg_sleep(60)"); err == nil {
		t.Fatal("the statement was not ended")
	}
	if after := backend(); after == before {
		t.Error("the connection is used again")
	}
}
