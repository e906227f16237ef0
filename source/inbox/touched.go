package inbox

import (
	"context"
	"database/sql"
	"fmt"

	"keyfold/engine/profile"
)

// ProductsOf returns the products that a user has events of, of one type where t is one, as far
// as the inbox has their bodies; each once, in any order.
func ProductsOf(ctx context.Context, r Reader, user int32, t profile.EventType) (ids []int32, err error) {
	err = each(reading(ctx, r), func(rows *sql.Rows) error {
		var id int32
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT DISTINCT json_extract(body, '$.product_id') AS product FROM inbox
		WHERE user_id = ? AND length(body) > 0 AND event_type <> 'search' AND ? IN ('', event_type) AND product > 0`, user, t.String())
	if err != nil {
		return nil, fmt.Errorf("inbox: list the products of user %d: %w", user, err)
	}
	return ids, nil
}
