package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }

func query(t *testing.T, s *Server, database, text string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.URL(database))
	must.OK(t, err)
	defer conn.Close(context.Background())
	must.OK(t, conn.QueryRow(context.Background(), text, pgx.QueryExecModeSimpleProtocol).Scan(&n))
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

func TestPooler(t *testing.T) {
	p := StartPooler(t, Shared(t), 1)
	first, second := connect(t, p.URL("postgres")), connect(t, p.URL("postgres"))
	if a, b := backend(t, first), backend(t, second); a != b {
		t.Errorf("two clients have the connections %d and %d, want one", a, b)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func backend(t *testing.T, conn *pgx.Conn) (pid int) {
	t.Helper()
	must.OK(t, conn.QueryRow(context.Background(), "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid))
	return pid
}
