package pgtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// Database returns the name of a database that is the test's own. It is a copy of template,
// to which none may be connected, or empty where that is "". Empty databases of tests that have
// ended are emptied and used again: to make and drop one takes a processor longer, while to
// make the tables of a template anew takes it longer than to copy its files.
func (s *Server) Database(t testing.TB, template string) string {
	t.Helper()
	if template != "" {
		return s.copied(t, template)
	}
	name := s.take()
	if name == "" || s.exec(context.Background(), name, empty) != nil {
		name = s.create(t, "")
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used = append(s.used, name)
	})
	return name
}

// copied makes a copy of a database for a test, and drops it at its end.
func (s *Server) copied(t testing.TB, template string) string {
	t.Helper()
	name := s.create(t, " TEMPLATE "+template+s.strategy)
	t.Cleanup(func() {
		if s.Running() {
			_ = s.exec(context.Background(), "postgres", "DROP DATABASE "+name+" WITH (FORCE)") // a test may have dropped it
		}
	})
	return name
}

// take returns a used database, if there is one.
func (s *Server) take() (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.used) - 1; last >= 0 {
		name, s.used = s.used[last], s.used[:last]
	}
	return name
}

func (s *Server) create(t testing.TB, from string) string {
	t.Helper()
	s.mu.Lock()
	s.databases++
	name := fmt.Sprintf("test%d", s.databases)
	s.mu.Unlock()
	s.Exec(t, "CREATE DATABASE "+name+from)
	return name
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
