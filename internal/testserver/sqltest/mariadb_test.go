package sqltest

import (
	"testing"
	"time"

	"keyfold/internal/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }

func TestServer(t *testing.T) {
	began := time.Now()
	s := Shared(t)
	t.Logf("started in %v", time.Since(began))
	first, second := s.Database(t), s.Database(t)
	if first == second {
		t.Fatalf("two databases are both named %s", first)
	}
	s.Exec(t, "CREATE TABLE "+first+".t (a INT)")
	// Others run beside it, started by other packages' tests.
	var tmp string
	if err := s.Admin().QueryRow("SELECT @@tmpdir").Scan(&tmp); err != nil || tmp != s.in("tmp") {
		t.Errorf("its temporary files are in %s (%v), want its own folder", tmp, err)
	}
}

func TestCommitsOutliveAKill(t *testing.T) {
	s := Start(t)
	db := s.Database(t)
	s.Exec(t, "CREATE TABLE "+db+".t (a INT PRIMARY KEY)")
	s.Exec(t, "INSERT INTO "+db+".t VALUES (1), (2)")
	s.Kill()
	if s.Running() || s.Admin().Ping() == nil {
		t.Fatal("the server answers after a kill")
	}
	s.Restart(t)
	var n int
	if err := s.Admin().QueryRow("SELECT COUNT(*) FROM " + db + ".t").Scan(&n); err != nil || n != 2 {
		t.Fatalf("%d rows, %v; want 2", n, err)
	}
}
