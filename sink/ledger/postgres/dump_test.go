package postgres

import (
	"bytes"
	"os/exec"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"
)

// What pg_dump makes of a ledger is restored by psql, with what waits in it, and with aliases.
func TestADumpIsRestored(t *testing.T) {
	server := pgtest.Shared(t)
	url := newURL(t)
	before := openAt(t, url)
	fillDeferrals(t, before, 40, 10)
	for _, user := range []string{"alias", "into"} {
		must.OK(t, commitOne(before, one(user, notify.Never)))
	}
	mergeUsers(t, before, "alias", "into")
	program := func(name string) string {
		path, err := process.Find("postgresql-client", name)
		must.OK(t, err)
		return path
	}
	dump, err := exec.CommandContext(ctx, program("pg_dump"), "--dbname="+url).Output()
	must.OK(t, err)
	restored := server.URL(server.Database(t, ""))
	psql := exec.CommandContext(ctx, program("psql"), "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--dbname="+restored)
	psql.Stdin = bytes.NewReader(dump)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l := openAt(t, restored)
	must.OK(t, l.Check(ctx))
	all, err := l.Claim(ctx, start, start+60_000, 100)
	must.OK(t, err)
	if len(all) != 40 {
		t.Errorf("%d of 40 due deferrals are there", len(all))
	}
	mergeUsers(t, l, "another", "into")
	aliases, err := l.Aliases(ctx, "into")
	must.OK(t, err)
	if len(aliases) != 2 || aliases[0].ID != "alias" || aliases[1].ID != "another" {
		t.Errorf("aliases are %+v", aliases)
	}
}
