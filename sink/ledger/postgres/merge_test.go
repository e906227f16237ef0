package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/sink/ledger"
)

func mergeUsers(t *testing.T, l *Ledger, alias, into string) ledger.Merged {
	t.Helper()
	done, err := ledger.MergeUsers(ctx, l, alias, into, start+1)
	must.OK(t, err)
	return done
}

// mergeOf returns a merge of what is stored, with the state of the user.
func mergeOf(t *testing.T, l *Ledger, alias, into string) *notify.Merge {
	t.Helper()
	from, to := standingOf(t, l, alias), standingOf(t, l, into)
	return &notify.Merge{Alias: alias, Into: into, At: start, AliasVersion: from.Version, IntoVersion: to.Version, State: to.State}
}

// All that is stored of an alias moves, also what has no record any more, and no table of
// decisions is read whole for it.
func TestMergeMovesAll(t *testing.T) {
	url := newURL(t)
	l := openAt(t, url+"&pool_max_conns=1")
	const alias, into = "Kassandra-71", "Ulysses-12"
	fillUser(t, l, into, 2000)
	fillUser(t, l, alias, 4000)
	must.OK(t, commitOne(l, oneAt(alias, standingOf(t, l, alias).Version, notify.Now, start+day))) // in another partition
	of, err := l.CountRecords(ctx, alias)
	must.OK(t, err)
	run(t, l, "ANALYZE")
	alone(t, l)
	others, err := l.CountRecords(ctx, into)
	must.OK(t, err)
	m := mergeOf(t, l, alias, into)
	before, began := scans(t, l), time.Now()
	n, err := l.Merge(ctx, m)
	must.OK(t, err)
	t.Logf("%d records and %d were merged in %v", of, others, time.Since(began).Round(time.Millisecond))
	if n := scans(t, l) - before; n > 0 {
		t.Errorf("the merge read tables whole %d times", n)
	}
	if int64(n) != of {
		t.Errorf("%d decisions were merged, want %d", n, of)
	}
	for _, table := range []string{"notify_decisions", "notify_event_keys", "notify_deferrals", "notify_preferences", "notify_responses"} {
		var n int
		if must.OK(t, l.pool.QueryRow(ctx, "SELECT count(*) FROM "+table+" WHERE user_id = $1", alias).Scan(&n)); n > 0 {
			t.Errorf("%d rows of %s are the alias's", n, table)
		}
	}
	if n, err := l.CountRecords(ctx, into); err != nil || n != others+of {
		t.Errorf("%d records, %v", n, err)
	}
	if deferred := standingOf(t, l, into).Deferred; len(deferred) != 4 {
		t.Errorf("%d deferrals, want 2 of each", len(deferred))
	}
	var last *notify.Record
	for d, err := range l.Records(ctx, ledger.Filter{User: into, Oldest: true}) {
		must.OK(t, err)
		if r := d.Record; last != nil && (r.Seq != last.Seq+1 || r.DecidedAt < last.DecidedAt) {
			t.Fatalf("the record %d of %d follows %d of %d", r.Seq, r.DecidedAt, last.Seq, last.DecidedAt)
		}
		last = &d.Record
	}
}

// An erasure of a merged user that ended on the way is carried on by a call with any of the
// ids, and leaves none of them.
//
// Promise(ledger/erasure)
func TestInterruptedErasureOfAliases(t *testing.T) {
	const alias, into, other = "Kassandra-71", "Ulysses-12", "Penelope-3"
	for name, again := range map[string]string{"with an alias": alias, "with the user's own id": into} {
		t.Run(name, func(t *testing.T) {
			url := newURL(t)
			l := openAt(t, url)
			fillUser(t, l, into, 1)
			fillUser(t, l, alias, blankedPerCall+1)
			mergeUsers(t, l, alias, into)
			mergeUsers(t, l, other, into)
			user, err := l.bury(ctx, alias, start+5)
			if must.OK(t, err); user != into {
				t.Fatalf("the user is %s", user)
			}
			for range 2 { // the end of the process, before and after some records are blanked
				for _, id := range []string{alias, into, other} {
					if s := standingOf(t, l, id); !s.State.Erased || len(s.Deferred) > 0 {
						t.Errorf("%s is %+v", id, s)
					}
					if p, err := l.Preferences(ctx, id); err != nil || !p.Erased {
						t.Errorf("preferences of %s: %+v, %v", id, p, err)
					}
				}
				if len(pgtest.Search(t, url, alias)) == 0 {
					t.Error("there is nothing left to blank: the test shows nothing")
				}
				_, err := l.blank(ctx, user)
				must.OK(t, err)
			}
			for range 2 {
				must.OK(t, l.Forget(ctx, again, start+6))
				if places := pgtest.Search(t, url, alias, into, other, "Grüße", "no device"); len(places) > 0 {
					t.Errorf("after the second call: %v", places)
				}
			}
			if places := pgtest.Search(t, url, notify.Tombstone(alias), notify.Tombstone(other)); len(places) != 2 {
				t.Errorf("tombstones of the aliases are in %v", places)
			}
		})
	}
}

// What comes while a merge is under way waits for it, and is decided by what it has stored.
func TestWhatWaitsForAMerge(t *testing.T) {
	erased := func(t *testing.T, l *Ledger, err error) {
		must.OK(t, err)
		for _, id := range []string{"alias", "into"} {
			if s := standingOf(t, l, id); !s.State.Erased {
				t.Errorf("%s is %+v", id, s.State)
			}
		}
		if all, err := l.Aliases(ctx, "into"); err != nil || len(all) > 0 {
			t.Errorf("aliases are %v, %v", all, err)
		}
	}
	conflicts := func(t *testing.T, _ *Ledger, err error) {
		if !errors.Is(err, engine.ErrConflict) {
			t.Errorf("the answer is %v", err)
		}
	}
	for name, test := range map[string]struct {
		call   func(*Ledger) error
		expect func(*testing.T, *Ledger, error)
	}{
		"erasure of the alias": {func(l *Ledger) error { return l.Forget(ctx, "alias", start) }, erased},
		"erasure of the user":  {func(l *Ledger) error { return l.Forget(ctx, "into", start) }, erased},
		"preferences of the alias": {
			func(l *Ledger) error { return l.SetPreferences(ctx, "alias", notify.Preferences{Paused: true}) },
			func(t *testing.T, l *Ledger, err error) {
				if m, ok := errors.AsType[*ledger.MergedError](err); !ok || m.Into != "into" {
					t.Errorf("the answer is %v", err)
				}
			},
		},
		"preferences of the user": {
			func(l *Ledger) error { return l.SetPreferences(ctx, "into", notify.Preferences{Paused: true}) },
			func(t *testing.T, l *Ledger, err error) {
				must.OK(t, err)
				if s := standingOf(t, l, "into"); !s.Preferences.Paused || s.Version != 4 {
					t.Errorf("the user is %+v", s)
				}
			},
		},
		"decision of the alias": {func(l *Ledger) error { return commitOne(l, oneAt("alias", 1, notify.Later, start)) }, conflicts},
		"decision of the user":  {func(l *Ledger) error { return commitOne(l, oneAt("into", 1, notify.Later, start)) }, conflicts},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t)
			c := oneAt("alias", 0, notify.Now, start)
			must.OK(t, commitOne(l, c))
			must.OK(t, commitOne(l, one("into", notify.Now)))
			must.OK(t, errors.Join(l.Apply(ctx, []notify.Report{{Event: c.Decided[0].Event.ID, Status: notify.Delivered, Channel: notify.Push, At: start}})...))
			locked, err := l.pool.Begin(ctx) // what the merge needs late
			must.OK(t, err)
			_, err = locked.Exec(ctx, "SELECT FROM notify_responses WHERE user_id = 'alias' FOR UPDATE")
			must.OK(t, err)
			merged, called := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := ledger.MergeUsers(ctx, l, "alias", "into", start)
				merged <- err
			}()
			waiting(t, l, 1)
			go func() { called <- test.call(l) }()
			waiting(t, l, 2)
			must.OK(t, locked.Rollback(ctx))
			must.OK(t, <-merged)
			test.expect(t, l, <-called)
		})
	}
}

// waiting waits until so many sessions wait for a lock.
func waiting(t *testing.T, l *Ledger, n int) {
	t.Helper()
	for {
		all, err := collect(ctx, l, "activity", pgx.RowTo[string],
			"SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		must.OK(t, err)
		if len(all) == n {
			return
		}
		must.OK(t, ctx.Err())
		time.Sleep(time.Millisecond)
	}
}

// A merge that fails has changed nothing.
func TestAMergeIsWhole(t *testing.T) {
	url := newURL(t)
	l := openAt(t, url)
	fillUser(t, l, "into", 1)
	fillUser(t, l, "alias", 1)
	run(t, l, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no link' USING ERRCODE = '23000'; END $$`)
	run(t, l, `CREATE TRIGGER refuse BEFORE INSERT ON notify_aliases FOR EACH ROW EXECUTE FUNCTION refuse()`)
	before := strings.Join(pgtest.Search(t, url, "into", "alias"), "\n")
	if _, err := ledger.MergeUsers(ctx, l, "alias", "into", start); engine.KindOf(err) != engine.Permanent {
		t.Fatalf("the merge: %v", err)
	}
	if after := strings.Join(pgtest.Search(t, url, "into", "alias"), "\n"); after != before {
		t.Errorf("stored was\n%s\nand is\n%s", before, after)
	}
	run(t, l, `DROP TRIGGER refuse ON notify_aliases`)
	mergeUsers(t, l, "alias", "into")
}

// A merge and an erasure take the rights that the causes of faults name, and no others.
func TestRightsOfAMerge(t *testing.T) {
	server := pgtest.Shared(t)
	l := openNew(t)
	run(t, l, "CREATE ROLE merges LOGIN PASSWORD 'x'")
	t.Cleanup(func() { server.Exec(t, "DROP ROLE merges") })
	run(t, l, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO merges")
	defer run(t, l, "DROP OWNED BY merges")
	limited := openAt(t, strings.Replace(l.pool.Config().ConnString(), "postgres@", "merges:x@", 1))
	for _, user := range []string{"alias", "into"} {
		must.OK(t, commitOne(limited, one(user, notify.Later)))
	}
	mergeUsers(t, limited, "alias", "into")
	must.OK(t, limited.Forget(ctx, "alias", start))
	if s := standingOf(t, limited, "into"); !s.State.Erased {
		t.Errorf("the user is %+v", s)
	}
	must.OK(t, limited.Close())
}
