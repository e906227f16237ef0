package postgres

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
)

// days is how many partitions the explanations are read from: the default of
// NOTIFY_RETENTION.
const days = 90

// spread makes partitions and stores in each of them decisions of one event a user: of
// every third user a LATER and, a day after it, a NOW.
func spread(t testing.TB, l *Ledger, users int) (all []notify.Decided) {
	t.Helper()
	_, err := l.EnsurePartitions(ctx, start, days)
	must.OK(t, err)
	var changes []notify.Change
	for i := range users {
		at := start + engine.Millis(i%(days-1))*day
		e := ledgertest.Event(uuid.NewString(), notify.Update, at)
		c := notify.Change{User: e.UserID, State: &notify.State{DecidedAt: at}}
		if i%3 == 0 {
			c.Decided = append(c.Decided, ledgertest.Decide(e, 1, 0, notify.Later, at), ledgertest.Decide(e, 2, 1, notify.Now, at+day))
		} else {
			c.Decided = append(c.Decided, ledgertest.Decide(e, 1, 0, notify.Now, at))
		}
		all = append(all, c.Decided...)
		changes = append(changes, c)
	}
	for part := range slices.Chunk(changes, 500) {
		for _, err := range l.Commit(ctx, part, nil) {
			must.OK(t, err)
		}
	}
	run(t, l, "ANALYZE")
	return all
}

// A decision is found by the time in its id: the plan has the one partition of its day and
// reads its index. The turns of an event are read in the days that its key leaves open.
func TestExplainingReadsFewPartitions(t *testing.T) {
	server := pgtest.Shared(t)
	r := newRelay(t, server.Address())
	l := openAt(t, strings.Replace(newURL(t), server.Address(), r.Addr().String(), 1)+"&pool_max_conns=1")
	all := spread(t, l, 3*days)
	must.OK(t, l.Check(ctx)) // connected
	for i := range all {
		want := &all[i].Record
		before := r.trips.Load()
		found, err := l.Decision(ctx, want.DecisionID)
		if must.OK(t, err); found == nil || found.Record.DecisionID != want.DecisionID {
			t.Fatalf("decision %s was not found", want.DecisionID)
		}
		if n := r.trips.Load() - before; n != 1 {
			t.Fatalf("a decision took %d round trips, want 1", n)
		}
		before = r.trips.Load()
		turns := turnsOf(t, l, want.EventID)
		if n := r.trips.Load() - before; len(turns) == 0 || n != 2 {
			t.Fatalf("%d turns took %d round trips, want 2: the key, the turns", len(turns), n)
		}
	}
	plan := func(query string, args ...any) (partitions int) {
		t.Helper()
		lines, err := collect(ctx, l, "explain", pgx.RowTo[string], "EXPLAIN "+query, args...)
		must.OK(t, err)
		text := strings.Join(lines, "\n")
		if strings.Contains(text, "Seq Scan") {
			t.Errorf("a table is read whole:\n%s", text)
		}
		return strings.Count(text, " on notify_decisions_")
	}
	newest := slices.MaxFunc(all, func(a, b notify.Decided) int { return cmp.Compare(a.Record.DecidedAt, b.Record.DecidedAt) })
	last := &newest.Record
	run(t, l, "SET enable_seqscan = off") // the tables of the test are of one page
	if n := plan(readDecision, notify.DecisionInstant(last.DecisionID).Time(), last.DecisionID.String()); n != 1 {
		t.Errorf("the plan of a decision has %d partitions, want 1", n)
	}
	for days, from := range map[int]engine.Millis{1: last.DecidedAt, 9: last.DecidedAt - turnsWithin} {
		query, args := pageQuery(&ledger.Filter{Event: last.EventID, From: from, To: last.DecidedAt + 1, Oldest: true}, nil, 256)
		if n := plan(query, args...); n != days {
			t.Errorf("the plan of an event's turns has %d partitions, want %d", n, days)
		}
	}

	// Without the key, and where a turn lies further back, all days are asked.
	far := ledgertest.Event("far", notify.Update, start)
	c := notify.Change{User: "far", State: &notify.State{DecidedAt: start}, Decided: []notify.Decided{
		ledgertest.Decide(far, 1, 0, notify.Later, start), ledgertest.Decide(far, 2, 1, notify.Now, start+60*day),
	}}
	must.OK(t, commitOne(l, c))
	if turns := turnsOf(t, l, far.ID); len(turns) != 2 {
		t.Errorf("%d turns 60 days apart, want 2", len(turns))
	}
	run(t, l, "DELETE FROM notify_event_keys")
	if turns := turnsOf(t, l, far.ID); len(turns) != 2 {
		t.Errorf("%d turns without the key, want 2", len(turns))
	}
}

func turnsOf(t testing.TB, l *Ledger, event uuid.UUID) (turns []notify.Decided) {
	t.Helper()
	for d, err := range l.Records(ctx, ledger.Filter{Event: event, Oldest: true}) {
		must.OK(t, err)
		turns = append(turns, d)
	}
	return turns
}

// BenchmarkExplain reads and explains decisions, and the turns of events, over 90
// partitions with 133,000 records.
func BenchmarkExplain(b *testing.B) {
	l := openAt(b, newURL(b))
	all := spread(b, l, 100_000)
	each := func(name string, read func(*notify.Record) []notify.Decided) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				found := read(&all[i*7919%len(all)].Record)
				for j := range found {
					notify.Explain(&found[j])
				}
				if took = append(took, time.Since(began)); len(found) == 0 {
					b.Fatal("not found")
				}
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms/p50")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms/p99")
		})
	}
	each("decision", func(r *notify.Record) []notify.Decided {
		found, err := l.Decision(ctx, r.DecisionID)
		must.OK(b, err)
		return []notify.Decided{*found}
	})
	each("event", func(r *notify.Record) []notify.Decided { return turnsOf(b, l, r.EventID) })
	run(b, l, "DELETE FROM notify_event_keys")
	each("event without a key", func(r *notify.Record) []notify.Decided { return turnsOf(b, l, r.EventID) })
}
