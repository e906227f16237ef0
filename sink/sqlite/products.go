package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/sink/sqlfile"
)

const (
	productColumns = `product_id, embedding, dimension_count, product_name, category, embedding_model`

	loadProducts = `SELECT ` + productColumns + ` FROM product_embeddings
		WHERE product_id IN (SELECT value FROM json_each(?))`

	pageProducts = `SELECT ` + productColumns + ` FROM product_embeddings
		WHERE product_id > max(?1, ?3) AND product_id <= ?4 ORDER BY product_id LIMIT ?2`

	productRange = `SELECT coalesce((SELECT min(product_id) FROM product_embeddings), 0),
		coalesce((SELECT max(product_id) FROM product_embeddings), 0)`

	putProduct = `INSERT INTO product_embeddings (` + productColumns + `, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)
		ON CONFLICT (product_id) DO UPDATE SET embedding = excluded.embedding,
			dimension_count = excluded.dimension_count, product_name = excluded.product_name,
			category = excluded.category, embedding_model = excluded.embedding_model,
			updated_at = excluded.updated_at`
)

// putChunk is how many products one function writes: an import must not hold
// up the profiles.
const putChunk = 256

// PutProducts inserts products or replaces those of the same id; now becomes
// their updated_at, and created_at of the new ones. It writes in chunks, between
// which it looks at ctx: after an error, some may be written.
func (f *File) PutProducts(ctx context.Context, products []profile.Product, now engine.Millis) error {
	for chunk := range slices.Chunk(products, putChunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		// The caller may change products once this returns, so it must not
		// return while the function runs.
		err := f.Write(context.WithoutCancel(ctx), func(tx *sqlfile.Tx) error { return putAll(tx, chunk, now) })
		if err != nil {
			return err
		}
	}
	return nil
}

func putAll(tx *sqlfile.Tx, products []profile.Product, now engine.Millis) error {
	for i := range products {
		p := &products[i]
		_, err := tx.Exec(putProduct, p.ID, encode(p.Vector), len(p.Vector), p.Name, p.Category, p.Model, int64(now))
		if err != nil {
			return fmt.Errorf("product %d: %w", p.ID, err)
		}
	}
	return nil
}

// Products returns those of the products that exist, in the order of their ids.
func (r *Reader) Products(ctx context.Context, ids []int32) ([]profile.Product, error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	return sqlfile.Collect(ctx, r.Reader, scanProduct, loadProducts, jsonIDs(ids))
}

// ProductStreams returns every product in two streams, of the lower and the upper half of
// the range of ids: the time of a pass is SQLite's, which a second processor halves. Each
// stream yields in the order of ids, until the first error, and each page is as of its own
// reading.
func (r *Reader) ProductStreams(ctx context.Context) []iter.Seq2[profile.Product, error] {
	var first, last int64
	if err := r.One(productRange, &first, &last); err != nil {
		return []iter.Seq2[profile.Product, error]{func(yield func(profile.Product, error) bool) { yield(profile.Product{}, err) }}
	}
	middle := (first + last) >> 1
	return []iter.Seq2[profile.Product, error]{r.productsIn(ctx, math.MinInt64, middle), r.productsIn(ctx, middle, math.MaxInt32)}
}

// productsIn yields the products with ids above after, up to last.
func (r *Reader) productsIn(ctx context.Context, after, last int64) iter.Seq2[profile.Product, error] {
	return pages(ctx, r, scanProduct, func(p profile.Product) int32 { return p.ID }, pageProducts, after, last)
}

// ProductTimes yields the id of each product and when it was written last.
func (r *Reader) ProductTimes(ctx context.Context) iter.Seq2[profile.ProductTime, error] {
	scan := func(rows *sql.Rows) (t profile.ProductTime, err error) {
		err = rows.Scan(&t.ID, &t.WrittenAt)
		return t, err
	}
	return func(yield func(profile.ProductTime, error) bool) {
		times, err := sqlfile.Collect(ctx, r.Reader, scan, "SELECT product_id, updated_at FROM product_embeddings")
		for _, t := range times {
			if !yield(t, nil) {
				return
			}
		}
		if err != nil {
			yield(profile.ProductTime{}, err)
		}
	}
}

// CountProducts returns the number of products.
func (r *Reader) CountProducts(ctx context.Context) (int64, error) {
	return r.Count(ctx, "SELECT count(*) FROM product_embeddings")
}

// scanProduct reads a row of productColumns.
func scanProduct(rows *sql.Rows) (p profile.Product, err error) {
	var (
		embedding  sql.RawBytes
		dimensions int
	)
	if err := rows.Scan(&p.ID, &embedding, &dimensions, &p.Name, &p.Category, &p.Model); err != nil {
		return p, err
	}
	if p.Vector, err = decode[float32](embedding, dimensions); err != nil {
		return p, engine.ConfigurationError(sqlfile.ReasonCorrupt, fmt.Errorf(
			"product %d is damaged: import it again: %w", p.ID, err))
	}
	return p, nil
}
