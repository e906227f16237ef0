package postgres

import (
	"errors"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// A report reads and writes the partition of its decision's day and no other, as the
// mark of an expired event does.
//
// Promise(ledger/reports)
func TestReportsReadOnePartition(t *testing.T) {
	l := openAt(t, newURL(t)+"&pool_max_conns=1")
	first, second, third := oneAt("a", 0, notify.Now, start), oneAt("b", 0, notify.Now, start+day), oneAt("c", 0, notify.Now, start+1)
	for _, c := range []notify.Change{first, second, third} {
		must.OK(t, commitOne(l, c))
	}
	before := lookups(t, l)
	if len(before) != 2 {
		t.Fatalf("the partitions are %v", before)
	}
	r := &first.Decided[0].Record
	must.OK(t, errors.Join(l.Apply(ctx, []notify.Report{
		{Decision: r.DecisionID, Status: notify.DeliveryFailed, At: start},
		{Event: r.EventID, Status: notify.Delivered, Channel: notify.Push, At: start},
	})...))
	must.OK(t, errors.Join(l.Commit(ctx, nil, []notify.DispatchMark{{Event: third.Decided[0].Event.ID, Expired: true}})...))
	after := lookups(t, l)
	for name, n := range before {
		if (after[name] > n) != (name == start.Time().UTC().Format(partitionName)) {
			t.Errorf("partition %s: %d look-ups", name, after[name]-n)
		}
	}
	for i, c := range []notify.Change{first, second, third} {
		d, err := l.Decision(ctx, c.Decided[0].Record.DecisionID)
		must.OK(t, err)
		if want := []notify.Status{notify.Delivered, notify.Pending, notify.DeliveryFailed}[i]; d.Delivery.Status != want {
			t.Errorf("decision %d is %s, want %s", i, d.Delivery.Status, want)
		}
	}
}

// lookups returns how many scans of indexes the server has counted, by partition.
func lookups(t *testing.T, l *Ledger) map[string]int64 {
	t.Helper()
	scans(t, l) // for what it flushes
	rows, err := l.pool.Query(ctx, "SELECT relname::text, idx_scan FROM pg_stat_user_tables WHERE relname LIKE 'notify\\_decisions\\_%'")
	must.OK(t, err)
	all := map[string]int64{}
	for rows.Next() {
		var name string
		var n int64
		must.OK(t, rows.Scan(&name, &n))
		all[name] = n
	}
	must.OK(t, rows.Err())
	return all
}
