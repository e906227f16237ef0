package outbox

import (
	"maps"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// A shop's rows count whatever else its table holds: rows that are no event, of no time, of
// the future, and products whose ids no catalogue can have.
func TestProductCounts(t *testing.T) {
	onShops(t, func(t *testing.T, db *Database) {
		if _, ok := db.dialect.(postgresDialect); ok {
			exec(t, db, "ALTER TABLE user_interactions ALTER COLUMN product_id TYPE BIGINT")
		} else if _, ok := db.dialect.(mysqlDialect); ok {
			exec(t, db, "ALTER TABLE user_interactions MODIFY product_id BIGINT NULL")
		}
		shopHistory(t, db, 4, 3)
		_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		want := map[int32]int64{1: 1, 2: 1, 3: 1, 4: 1}
		got, err := db.ProductCounts(t.Context(), 7, nil)
		must.OK(t, err)
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		insert := func(product any, at string) {
			exec(t, db, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, processed_to_queue) VALUES (1, 'product_view', ?, ?, NULL)", product, at)
		}
		now := time.Now().UTC()
		insert(2, now.Format(time.DateTime))
		insert(2, now.Add(-6*24*time.Hour).Format(time.DateTime))
		insert(3, now.Add(-8*24*time.Hour).Format(time.DateTime))
		insert(nil, now.Format(time.DateTime))
		want[2] = 3
		if got, err = db.ProductCounts(t.Context(), 7, nil); err != nil || !maps.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
		for _, product := range []int64{5_000_000_000, -5, 0} {
			insert(product, now.Format(time.DateTime))
		}
		if got, err = db.ProductCounts(t.Context(), 7, nil); err != nil || got[2] != 3 || len(got) != 4 {
			t.Errorf("beside ids of no product: %v, %v", got, err)
		}
		insert(2, "2099-01-01 00:00:00")
		if got, err = db.ProductCounts(t.Context(), 7, nil); err != nil || got[2] < 3 || got[1] != 1 {
			t.Errorf("beside a row of the future: %v, %v", got, err)
		}
	})
}

// What is popular is counted from the last days' rows, not from the whole history.
func TestProductCountsReadTheLastDays(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *Database) {
		fill(t, db, 5, 2000)
		plan, err := collect(t.Context(), db.pool, func(s scanner) (step string, err error) {
			var id, parent, unused int
			err = s.Scan(&id, &parent, &unused, &step)
			return step, err
		}, "EXPLAIN QUERY PLAN "+db.countProducts(nil), "2026-01-01 00:00:00.000", 10)
		must.OK(t, err)
		if all := strings.Join(plan, "; "); !strings.Contains(all, "idx_occurred (occurred_at>?)") {
			t.Error(all)
		}
	})
}
