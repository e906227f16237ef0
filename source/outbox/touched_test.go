package outbox

import (
	"slices"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// The products of a user are those of the history, each once, and of one type where one is named.
func TestProductsOf(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		fill(t, db, 5, 60)
		users, err := db.Users(t.Context(), 0)
		must.OK(t, err)
		for _, user := range users {
			for _, kind := range []profile.EventType{0, profile.ProductPurchase, profile.ProductView} {
				var want []int32
				for row, err := range db.History(t.Context(), Filter{UserID: user, Type: kind}, Position{}) {
					must.OK(t, err)
					if id := row.Event.ProductID; id != 0 && !slices.Contains(want, id) {
						want = append(want, id)
					}
				}
				got, err := db.ProductsOf(t.Context(), user, kind)
				must.OK(t, err)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("user %d, %v: %v, want %v", user, kind, got, want)
				}
			}
		}
	})
}

// A user's products are found by the user's rows alone.
func TestProductsOfReadTheUsersRows(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *Database) {
		query, args := db.productsOf(1, profile.ProductPurchase)
		plan, err := collect(t.Context(), db.pool, func(s scanner) (step string, err error) {
			var id, parent, unused int
			err = s.Scan(&id, &parent, &unused, &step)
			return step, err
		}, "EXPLAIN QUERY PLAN "+query, args...)
		must.OK(t, err)
		if all := strings.Join(plan, "; "); !strings.Contains(all, "idx_user_occurred (user_id=?)") {
			t.Error(all)
		}
	})
}
