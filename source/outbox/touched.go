package outbox

import (
	"context"
	"fmt"
	"strconv"

	"keyfold/engine/profile"
)

// ProductsOf returns the products that a user has events of, of one type where t is one; each
// once, in any order. It reads the user's rows and sends none of them over the network.
func (d *Database) ProductsOf(ctx context.Context, user int32, t profile.EventType) (ids []int32, err error) {
	query, args := d.productsOf(user, t)
	err = each(ctx, d.pool, func(s scanner) error {
		product, err := column[string](s)
		if id, err := strconv.ParseInt(product, 10, 32); err == nil && id > 0 {
			ids = append(ids, int32(id))
		}
		return err
	}, query, args...)
	if err != nil {
		return nil, d.fault(fmt.Sprintf("list the products of user %d", user), err)
	}
	return ids, nil
}

func (d *Database) productsOf(user int32, t profile.EventType) (query string, args []any) {
	return Filter{UserID: user, Type: t}.restrict("SELECT DISTINCT product_id FROM user_interactions"+d.words.index("idx_user_occurred")+
		" WHERE message_id IS NOT NULL AND duplicate = FALSE AND product_id IS NOT NULL", nil)
}
