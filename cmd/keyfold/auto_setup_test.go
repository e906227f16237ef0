package main

import (
	"strings"
	"testing"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/sqltest"

	"keyfold/source/outbox"
)

// With --auto-setup the services make what they need, several at once, and events that
// are posted then are published.
func TestAutoSetup(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{outbox.MariaDB, outbox.SQLite} {
		t.Run(kind, func(t *testing.T) {
			s := &shop{stack: newStack(t), url: newDatabase(t, kind)}
			if code, _, errs := s.run(t, "ingest", "--http-addr=127.0.0.1:0"); code != cli.ExitUsage && code != cli.ExitFailure || !strings.Contains(errs, "keyfold setup") {
				t.Fatalf("without it: exit code %d: %s", code, errs)
			}
			api := s.service(t, "ingest", "--http-addr=127.0.0.1:0", "--auto-setup")
			s.service(t, "relay", "--auto-setup").ready()
			api.ready().accepted(sampleOf(t, 3)...)
			s.allSent(t)
		})
	}
}

// A user of the database who may not make tables is told so, with the cure.
func TestAutoSetupWithoutTheRight(t *testing.T) {
	server := sqltest.Shared(t)
	database := server.Database(t)
	server.Exec(t, "CREATE USER IF NOT EXISTS writer IDENTIFIED BY 'right-secret'")
	server.Exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+database+".* TO writer")
	s := &shop{stack: newStack(t), url: "mysql://writer:right-secret@" + server.Address() + "/" + database}
	code, _, errs := s.run(t, "relay", "--auto-setup")
	if code == 0 || !strings.Contains(errs, "needs CREATE, ALTER, INDEX and REFERENCES") || strings.Contains(errs, "right-secret") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
