package inbox

import (
	"context"
	"database/sql"
	"fmt"
)

// ProductCounts returns how many folded events each product had in the days before the
// newest event, as far as the inbox has their bodies. It reads all rows.
func ProductCounts(ctx context.Context, r Reader, days int) (counts map[int32]int64, err error) {
	counts = map[int32]int64{}
	err = each(reading(ctx, r), func(rows *sql.Rows) error {
		var id int32
		var events int64
		err := rows.Scan(&id, &events)
		counts[id] = events
		return err
	}, `SELECT json_extract(body, '$.product_id') AS product, count(*) FROM inbox
		WHERE occurred_at > (SELECT max(occurred_at) FROM inbox) - ? AND state = ? AND length(body) > 0 AND event_type <> 'search'
		GROUP BY product HAVING product > 0`, int64(days)*24*3600*1000, int64(StateFolded))
	if err != nil {
		return nil, fmt.Errorf("inbox: count the events of products: %w", err)
	}
	return counts, nil
}
