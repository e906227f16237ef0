package mongodb

import (
	"errors"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func (s *Store) collectionNames(t *testing.T) []string {
	t.Helper()
	all, err := s.database.ListCollectionNames(ctx, bson.D{})
	must.OK(t, err)
	slices.Sort(all)
	return all
}

// A staged catalogue is seen when it is promoted, with its indexes; the first one counts, and
// nothing is left of the others.
func TestStagedCatalogue(t *testing.T) {
	config := settings(uri(t), 4)
	reader, one, two := open(t, config), open(t, config), open(t, config)
	must.OK(t, one.Stage(ctx, "one"))
	must.OK(t, two.Stage(ctx, "two"))
	must.OK(t, one.PutProducts(ctx, []profile.Product{product(1), product(2)}, 1000))
	must.OK(t, two.PutProducts(ctx, []profile.Product{product(3)}, 1000))
	if _, there, err := reader.CatalogueModel(ctx); there || err != nil {
		t.Errorf("a catalogue before one is promoted: %v", err)
	}
	must.OK(t, one.Promote(ctx))
	if model, there, err := reader.CatalogueModel(ctx); model != "m" || !there || err != nil {
		t.Errorf("the model %q, %v, %v", model, there, err)
	}
	if got, err := reader.Products(ctx, []int32{1, 2, 3}); len(got) != 2 || err != nil {
		t.Errorf("%d products, %v", len(got), err)
	}
	must.OK(t, two.PutProducts(ctx, []profile.Product{product(4)}, 1000)) // it does not know yet
	if err := two.Promote(ctx); !errors.Is(err, ErrCatalogueThere) {
		t.Errorf("a second catalogue: %v", err)
	}
	must.OK(t, two.Unstage(ctx))
	if err := two.Promote(ctx); !errors.Is(err, ErrCatalogueThere) {
		t.Errorf("one that the first has deleted: %v", err)
	}
	killed := open(t, config)
	must.OK(t, killed.Stage(ctx, "killed")) // and the run that renamed its own was killed before it deleted this one
	must.OK(t, one.Unstage(ctx))
	if names := reader.collectionNames(t); !slices.Equal(names, []string{collectionProducts}) {
		t.Errorf("collections %v", names)
	}
	indexes, err := reader.products.Indexes().ListSpecifications(ctx)
	if err != nil || len(indexes) != 3 {
		t.Errorf("%d indexes, %v", len(indexes), err)
	}
}

// An empty catalogue is there, and has no model.
func TestCatalogueModelOfNothing(t *testing.T) {
	s := start(t)
	if model, there, err := s.CatalogueModel(ctx); model != "" || !there || err != nil {
		t.Errorf("the model %q, %v, %v", model, there, err)
	}
}

// A worker of one training does not take the products of another, nor none; without learned
// components all is as before.
func TestCheckOfTrainings(t *testing.T) {
	const own, other = "text+learned-2:00000001", "text+learned-2:00000002"
	for _, c := range []struct {
		config, stored string
		fits           bool
	}{
		{own, own, true},
		{own, "", true}, // of the configured model
		{own, other, false},
		{own, "text", false},
		{"text", own, false},
		{"text", "text", true},
		{"text", "another", true}, // each event says so, as ever
		{"text", "none", true},
		{own, "none", false},
	} {
		s := openReady(t, settings(uri(t), 4))
		if c.stored != "none" {
			p := product(1)
			p.Model = c.stored
			must.OK(t, s.PutProducts(ctx, []profile.Product{p}, 1000))
		}
		changed := s.config
		changed.Model = c.config
		if err := open(t, changed).Check(ctx); (err == nil) != c.fits {
			t.Errorf("%q with products of %q: %v", c.config, c.stored, err)
		}
	}
}
