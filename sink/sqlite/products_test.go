package sqlite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func products(n int) []profile.Product {
	all := make([]profile.Product, n)
	for i := range all {
		all[i] = profile.Product{
			ID: int32(i + 1), Name: fmt.Sprint("Größe ", i), Category: "shoes", Vector: []float32{float32(i), -0.1, 1e-40},
		}
	}
	return all
}

func TestProducts(t *testing.T) {
	f := openNew(t, 4)
	all := products(3*putChunk + 5)
	must.OK(t, f.PutProducts(ctx, all, 1000))
	all[1] = profile.Product{ID: 2, Model: "other", Vector: []float32{1, 2, 3, 4, 5}}
	must.OK(t, f.PutProducts(ctx, all[1:2], 2000))

	got, err := f.Products(ctx, []int32{700, 2, 99999, 1})
	must.OK(t, err)
	if want := []profile.Product{all[0], all[1], all[699]}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, err := f.Products(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("no ids: %v, %v", got, err)
	}
	var listed []profile.Product
	for _, stream := range f.ProductStreams(ctx) {
		for p, err := range stream {
			must.OK(t, err)
			listed = append(listed, p)
		}
	}
	if !reflect.DeepEqual(listed, all) {
		t.Errorf("%d products listed, want the %d that were put, in order", len(listed), len(all))
	}
	if n, err := f.CountProducts(ctx); err != nil || n != int64(len(all)) {
		t.Errorf("count is %d, %v, want %d", n, err, len(all))
	}
	var created, updated int64
	must.OK(t, f.One("SELECT created_at, updated_at FROM product_embeddings WHERE product_id = 2", &created, &updated))
	if created != 1000 || updated != 2000 {
		t.Errorf("created_at %d, updated_at %d, want 1000 and 2000", created, updated)
	}
}

func TestPutProductsLooksAtTheContext(t *testing.T) {
	f := openNew(t, 4)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := f.PutProducts(cancelled, products(3), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("PutProducts: %v", err)
	}
	if err := f.PutProducts(ctx, []profile.Product{{ID: 1}}, 1); engine.KindOf(err) != engine.Permanent {
		t.Errorf("a product without a vector: %v, want a permanent error", err)
	}
	for _, stream := range f.ProductStreams(cancelled) {
		for _, err := range stream {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a stream of products: %v", err)
			}
		}
	}
}
