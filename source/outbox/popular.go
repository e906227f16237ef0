package outbox

import (
	"context"
	"strconv"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// mostCounted bounds the products of [Database.ProductCounts].
const mostCounted = 10_000

// ProductCounts returns how many events each product had in the days before the newest
// event, of those with the most. A shop's rows of the future make no other event old. It walks
// the index of occurred_at.
// Events of the types without do not count.
func (d *Database) ProductCounts(ctx context.Context, days int, without []profile.EventType) (counts map[int32]int64, err error) {
	newest, err := d.endOfHistory(ctx, "MAX", "<")
	if err != nil {
		return nil, d.fault("count the events of products", err)
	}
	since := min(newest, engine.Now()) - engine.Millis(days)*24*3600*1000
	rows, err := d.pool.QueryContext(ctx, d.countProducts(without), timeText(since), mostCounted)
	if err != nil {
		return nil, d.fault("count the events of products", err)
	}
	defer rows.Close()
	counts = map[int32]int64{}
	for rows.Next() {
		var product string
		var events int64
		if err := rows.Scan(&product, &events); err != nil {
			return nil, d.fault("count the events of products", err)
		}
		if id, err := strconv.ParseInt(product, 10, 32); err == nil && id > 0 {
			counts[int32(id)] = events
		}
	}
	if err := rows.Err(); err != nil {
		return nil, d.fault("count the events of products", err)
	}
	return counts, nil
}

// countProducts names the index: a database may prefer that of product_id, which has the groups
// in order, and read the whole history.
func (d *Database) countProducts(without []profile.EventType) string {
	others := ""
	for _, t := range without {
		others += " AND event_type <> '" + t.String() + "'"
	}
	return "SELECT product_id, COUNT(*) FROM user_interactions" + d.words.index("idx_occurred") +
		" WHERE occurred_at > ? AND product_id IS NOT NULL AND duplicate = FALSE" + others + " GROUP BY product_id ORDER BY COUNT(*) DESC, product_id LIMIT ?"
}
