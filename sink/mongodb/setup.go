package mongodb

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Setup creates what is missing and brings the validator up to date; run again
// it changes nothing. It returns notices for the operator: what this server
// cannot do and keyfold does without. It deletes nothing and checks no document
// that is there already.
//
// A missing right, and indexes or documents in the way of the unique indexes,
// are [engine.ConfigurationError].
func (s *Store) Setup(ctx context.Context) (notices []string, err error) {
	return s.setUp(ctx, func(context.Context) error { return nil })
}

// setUp calls shard when the indexes are there and the probes' document may not be.
func (s *Store) setUp(ctx context.Context, shard func(context.Context) error) (notices []string, err error) {
	if profile.LearnedIn(s.config.Model).Components > 0 {
		if err := s.checkProducts(ctx); err != nil { // the catalogue is whole before there is anything else
			return nil, err
		}
	}
	notice, err := s.setValidator(ctx)
	if err != nil {
		return nil, err
	}
	if notice != "" {
		notices = append(notices, notice)
	}
	err = s.index(ctx, s.users, unique(fieldUser), mongo.IndexModel{Keys: bson.D{{Key: fieldUpdated, Value: 1}}})
	if err != nil {
		return notices, err
	}
	if err = s.indexProducts(ctx); err != nil {
		return notices, err
	}
	if err = shard(ctx); err != nil {
		return notices, err
	}
	if notice, err = s.Durability(ctx); err != nil {
		return notices, err
	}
	if notice != "" {
		notices = append(notices, notice)
	}
	return notices, s.Probe(ctx)
}

// indexProducts makes the indexes of the catalogue. The second one lists it with its times and
// reads no document.
func (s *Store) indexProducts(ctx context.Context) error {
	return s.index(ctx, s.products, unique(fieldProduct), mongo.IndexModel{Keys: bson.D{{Key: fieldProduct, Value: 1}, {Key: fieldWrittenAt, Value: 1}}})
}

func unique(field string) mongo.IndexModel {
	return mongo.IndexModel{Keys: bson.D{{Key: field, Value: 1}}, Options: options.Index().SetUnique(true)}
}

// setValidator creates user_embeddings with its validator, or sets the validator
// of the collection that is there.
func (s *Store) setValidator(ctx context.Context) (notice string, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	rule := validator(s.config.Dimensions)
	err = s.database.CreateCollection(ctx, collectionUsers, options.CreateCollection().
		SetValidator(rule).SetValidationLevel("strict").SetValidationAction("error"))
	if hasCode(err, codeNamespaceExists) {
		err = s.database.RunCommand(ctx, bson.D{
			{Key: "collMod", Value: collectionUsers},
			{Key: "validator", Value: rule},
			{Key: "validationLevel", Value: "strict"},
			{Key: "validationAction", Value: "error"},
		}).Err()
	}
	if hasCode(err, codesOfAbsence...) {
		return withoutValidator(err), nil
	}
	if err != nil {
		return "", mark("set the validator of "+collectionUsers+" (this takes the role dbAdmin or dbOwner)", err)
	}
	// Some servers take a validator and drop it without a word.
	specs, err := s.database.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: collectionUsers}})
	if err != nil {
		return "", mark("read the validator of "+collectionUsers+" back", err)
	}
	for _, spec := range specs {
		if kept, ok := spec.Options.Lookup("validator").DocumentOK(); ok && len(kept) > shortestArray {
			return "", nil
		}
	}
	return withoutValidator(errors.New("it took the validator and did not keep it")), nil
}

func withoutValidator(why error) string {
	return fmt.Sprintf("this server has no validators, so %s goes without: keyfold itself writes nothing else, "+
		"but other programs could (%v)", collectionUsers, why)
}

// index creates indexes one by one, so that an error is of one.
func (s *Store) index(ctx context.Context, on *mongo.Collection, indexes ...mongo.IndexModel) error {
	for _, index := range indexes {
		ctx, cancel := s.bounded(ctx)
		_, err := on.Indexes().CreateOne(ctx, index)
		cancel()
		if err == nil {
			continue
		}
		name := fmt.Sprintf("index %v of %s", index.Keys, on.Name())
		switch {
		case hasCode(err, codeDuplicateKey):
			return engine.ConfigurationError(reasonNotSetUp, fmt.Errorf("the unique %s cannot be made: %w", name, several(on, index.Keys.(bson.D)[0].Key, err)))
		case hasCode(err, codeIndexOptionsConflict, codeIndexKeyConflict):
			return engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
				"the %s exists with other options: drop it and run %s again: %w", name, setupCommand, err))
		}
		return mark("create "+name, err)
	}
	return nil
}

// several names an id that several documents share, as far as the server tells, and
// the cure.
func several(on *mongo.Collection, field string, err error) error {
	id, kept := "an id", "one"
	if fault, ok := errors.AsType[mongo.CommandError](err); ok {
		if n, ok := fault.Raw.Lookup("keyValue", field).AsInt64OK(); ok {
			id = fmt.Sprint(field, " ", n)
		}
	}
	if field == fieldUser {
		kept = "the one with the highest version"
	}
	return fmt.Errorf("several documents of %s have %s: keep %s, delete the others and run %s again; mongosh lists all such ids with "+
		`db.%s.aggregate([{$group: {_id: "$%s", n: {$sum: 1}}}, {$match: {n: {$gt: 1}}}]): %w`, on.Name(), id, kept, setupCommand, on.Name(), field, err)
}
