package catalog

import (
	"context"

	"keyfold/engine/profile"
)

// Store is where products are kept.
type Store interface {
	// Products returns those of the products that exist, in any order. The
	// ids are distinct. A product without a readable vector is returned
	// without one. An error is the whole look-up's, typed where it arises;
	// with it, no product counts as read.
	Products(ctx context.Context, ids []int32) ([]profile.Product, error)
}
