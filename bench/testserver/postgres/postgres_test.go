package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/bench/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }

func query(t *testing.T, s *Server, database, text string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(context.Background(), text, pgx.QueryExecModeSimpleProtocol).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestServer(t *testing.T) {
	began := time.Now()
	s := Shared(t)
	t.Logf("started in %v", time.Since(began))
	first := s.Database(t, "")
	query(t, s, first, "WITH made AS (SELECT lo_from_bytea(7, 'a') AS a) SELECT a::int FROM made")
	second := s.Database(t, first)
	if n := query(t, s, second, "SELECT oid::int FROM pg_largeobject_metadata"); n != 7 || first == second {
		t.Fatalf("the copy %s of %s has %d", second, first, n)
	}
}

func TestCommitsOutliveAKill(t *testing.T) {
	s := Start(t)
	s.Exec(t, "CREATE TABLE t AS SELECT * FROM generate_series(1, 3) a")
	s.Kill()
	if s.Running() {
		t.Fatal("the server runs after a kill")
	}
	s.Restart(t)
	if n := query(t, s, "postgres", "SELECT count(*)::int FROM t"); n != 3 {
		t.Fatalf("%d rows, want 3", n)
	}
}
