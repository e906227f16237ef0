package postgres

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/internal/testserver/must"
)

// A claim, and what gives it back, writes a new version of the row beside the old one and
// touches no index. Otherwise each of them would be written three more times.
//
// Promise(ledger/claims)
func TestClaimsWriteNoIndex(t *testing.T) {
	l := openAt(t, newURL(t)+"&pool_max_conns=1")
	due, later := sizes()
	fillDeferrals(t, l, due, later)
	_, _, before := updates(t, l)
	var claimed []uuid.UUID
	for {
		all, err := l.Claim(ctx, start, start+60_000, 500)
		must.OK(t, err)
		if len(all) == 0 {
			break
		}
		for i := range all {
			claimed = append(claimed, all[i].Event.ID)
		}
	}
	for some := range slices.Chunk(claimed, 500) {
		must.OK(t, l.Release(ctx, some))
	}
	all, hot, after := updates(t, l)
	t.Logf("%d of %d updates are HOT, %d to %d pages", hot, all, before, after)
	if len(claimed) != due || all != int64(2*due) || hot < all*95/100 {
		t.Errorf("%d were claimed: %d of %d updates are HOT", len(claimed), hot, all)
	}
}

// updates returns how many updates of deferrals there were, how many of them wrote no
// index, and how many pages the table and its indexes have.
func updates(t *testing.T, l *Ledger) (all, hot, pages int64) {
	t.Helper()
	run(t, l, "SELECT pg_stat_force_next_flush()")
	run(t, l, "SELECT 1")
	run(t, l, "SELECT pg_stat_clear_snapshot()")
	must.OK(t, l.pool.QueryRow(ctx, `SELECT n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid) / 8192
		FROM pg_stat_user_tables WHERE relname = 'notify_deferrals'`).Scan(&all, &hot, &pages))
	return all, hot, pages
}
