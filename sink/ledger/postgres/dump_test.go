package postgres

import (
	"bytes"
	"os/exec"
	"testing"

	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"
)

// What pg_dump makes of a ledger is restored by psql, with what waits in it.
func TestADumpIsRestored(t *testing.T) {
	server := pgtest.Shared(t)
	url := newURL(t)
	fillDeferrals(t, openAt(t, url), 40, 10)
	program := func(name string) string {
		path, err := process.Find("postgresql-client", name)
		must(t, err)
		return path
	}
	dump, err := exec.CommandContext(ctx, program("pg_dump"), "--dbname="+url).Output()
	must(t, err)
	restored := server.URL(server.Database(t, ""))
	psql := exec.CommandContext(ctx, program("psql"), "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--dbname="+restored)
	psql.Stdin = bytes.NewReader(dump)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l := openAt(t, restored)
	must(t, l.Check(ctx))
	all, err := l.Claim(ctx, start, start+60_000, 100)
	must(t, err)
	if len(all) != 40 {
		t.Errorf("%d of 40 due deferrals are there", len(all))
	}
}
