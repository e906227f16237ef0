package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// stagedPrefix begins the names of collections that are to become the catalogue.
const stagedPrefix = collectionProducts + "_learning_"

// ErrCatalogueThere says that the database has a catalogue already.
var ErrCatalogueThere = errors.New("the database has a catalogue already")

// Stage has [Store.PutProducts] write into a collection of that name, which no program reads
// until [Store.Promote] makes it the catalogue. Two stores with two names do not meet before.
func (s *Store) Stage(ctx context.Context, name string) error {
	s.products = s.database.Collection(stagedPrefix + name)
	return s.indexProducts(ctx)
}

// Promote makes the staged collection the catalogue, in one step; [ErrCatalogueThere] where
// there is one by now. Other staged collections can become nothing any more and are deleted.
func (s *Store) Promote(ctx context.Context) error {
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	err := s.client.Database("admin").RunCommand(bounded, bson.D{
		{Key: "renameCollection", Value: s.config.Database + "." + s.products.Name()},
		{Key: "to", Value: s.config.Database + "." + collectionProducts},
		{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}},
	}).Err()
	switch {
	case hasCode(err, codeNamespaceExists, codeNamespaceNotFound): // who was faster may have deleted this one
		return ErrCatalogueThere
	case err != nil:
		return mark("rename "+s.products.Name()+" to "+collectionProducts, err)
	}
	s.products = s.database.Collection(collectionProducts)
	return s.Unstage(ctx)
}

// Unstage deletes the staged collection. Where there is a catalogue it deletes every staged
// one: a run that was killed after its rename has left them.
func (s *Store) Unstage(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	specs, err := s.database.ListCollectionSpecifications(ctx, bson.D{})
	if err != nil {
		return mark("list collections", err)
	}
	there := slices.ContainsFunc(specs, func(spec mongo.CollectionSpecification) bool { return spec.Name == collectionProducts })
	for _, spec := range specs {
		if !strings.HasPrefix(spec.Name, stagedPrefix) || !there && spec.Name != s.products.Name() {
			continue
		}
		if err := s.database.Collection(spec.Name).Drop(ctx); err != nil {
			return mark("delete "+spec.Name, err)
		}
	}
	return nil
}

// CatalogueModel returns the model of one of the products, and whether the database has a
// catalogue, which may be empty.
func (s *Store) CatalogueModel(ctx context.Context) (model string, there bool, err error) {
	bounded, cancel := s.bounded(ctx)
	specs, err := s.database.ListCollectionSpecifications(bounded, bson.D{{Key: "name", Value: collectionProducts}})
	cancel()
	if err != nil {
		return "", false, mark("list collections", err)
	}
	catalogue := s.database.Collection(collectionProducts)
	err = s.find(ctx, catalogue, bson.D{}, options.Find().SetLimit(1), func(doc bson.Raw) error {
		p, err := s.codec.product(doc)
		model = p.Model
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("read a product: %w", err)
	}
	return model, len(specs) > 0, nil
}
