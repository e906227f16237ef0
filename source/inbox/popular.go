package inbox

import (
	"context"
	"database/sql"
	"fmt"

	"keyfold/engine/profile"
)

// ProductCounts returns how many folded events each product had in the days before the
// newest event, as far as the inbox has their bodies. It reads all rows.
// Events of the types without do not count.
func ProductCounts(ctx context.Context, r Reader, days int, without []profile.EventType) (counts map[int32]int64, err error) {
	counts = map[int32]int64{}
	others := ""
	for _, t := range without {
		others += " AND event_type <> '" + t.String() + "'"
	}
	err = each(reading(ctx, r), func(rows *sql.Rows) error {
		var id int32
		var events int64
		err := rows.Scan(&id, &events)
		counts[id] = events
		return err
	}, `SELECT json_extract(body, '$.product_id') AS product, count(*) FROM inbox
		WHERE occurred_at > (SELECT max(occurred_at) FROM inbox) - ? AND state = ? AND length(body) > 0`+others+`
		GROUP BY product HAVING product > 0`, int64(days)*24*3600*1000, int64(StateFolded))
	if err != nil {
		return nil, fmt.Errorf("inbox: count the events of products: %w", err)
	}
	return counts, nil
}
