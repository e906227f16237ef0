package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/internal/testserver/process"
)

// empty is what makes a used database as good as new.
const empty = `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
SELECT lo_unlink(oid) FROM pg_largeobject_metadata;
DO $$ DECLARE name text; BEGIN
	FOR name IN SELECT nspname FROM pg_namespace WHERE nspname <> 'information_schema' AND nspname !~ '^pg_' LOOP
		EXECUTE format('DROP SCHEMA %I CASCADE', name);
	END LOOP;
	EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
END $$;
CREATE SCHEMA public AUTHORIZATION pg_database_owner;
GRANT USAGE ON SCHEMA public TO PUBLIC`

// Database returns the name of a database that is the test's own. It has what template
// has, or is empty where that is "". Databases of tests that have ended are emptied and
// used again: to make and drop one takes a processor a quarter of a second.
func (s *Server) Database(t testing.TB, template string) string {
	t.Helper()
	name, dump := s.take(t, template)
	if name == "" || s.exec(context.Background(), name, empty) != nil {
		name = s.create(t)
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used = append(s.used, name)
	})
	if dump != "" {
		s.execIn(t, name, dump)
	}
	return name
}

// take returns a used database, if there is one, and the statements that make what
// template has.
func (s *Server) take(t testing.TB, template string) (name, dump string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if template != "" && s.dumps[template] == "" {
		s.dumps[template] = s.dump(t, template)
	}
	if last := len(s.used) - 1; last >= 0 {
		name, s.used = s.used[last], s.used[:last]
	}
	return name, s.dumps[template]
}

func (s *Server) create(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	s.databases++
	name := fmt.Sprintf("test%d", s.databases)
	s.mu.Unlock()
	s.Exec(t, "CREATE DATABASE "+name)
	return name
}

// left are lines of a dump that psql obeys, and no server understands, and the one that has
// functions look for types in no schema.
var left = regexp.MustCompile(`(?m)^(\\.*|SELECT pg_catalog.set_config\('search_path'.*)$`)

// dump returns the statements that make what a database has.
func (s *Server) dump(t testing.TB, database string) string {
	t.Helper()
	program, err := process.Find("postgresql-client", "pg_dump", s.programs...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(program, "--inserts", "--dbname="+s.URL(database)).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	return left.ReplaceAllString(string(text), "")
}

// Exec runs a statement as postgres, in the database postgres.
func (s *Server) Exec(t testing.TB, statement string) {
	t.Helper()
	s.execIn(t, "postgres", statement)
}

func (s *Server) execIn(t testing.TB, database, statements string) {
	t.Helper()
	if err := s.exec(context.Background(), database, statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func (s *Server) exec(ctx context.Context, database, statements string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(database)+"&default_transaction_read_only=off")
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statements)
	return errors.Join(err, conn.Close(ctx))
}
