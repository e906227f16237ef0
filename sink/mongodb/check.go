package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/engine/profile"
)

// Check finds out, before the first event does, whether a worker can use the
// store: without the unique index two workers could insert one user twice, and
// profiles of other settings cannot be folded into. It looks at the newest
// profiles: a few that differ are their users' matter, as long as most fit. Both
// faults are [engine.ConfigurationError]. A server that does not answer the look in time
// passes: some sort all documents for it.
func (s *Store) Check(ctx context.Context) error {
	if err := s.lookAtIndex(ctx); err != nil {
		return err
	}
	for _, look := range []func(context.Context) error{s.checkValidator, s.checkSettings, s.checkProducts} {
		bounded, cancel := context.WithTimeout(ctx, lookTimeout)
		err := look(bounded)
		cancel()
		if err != nil && (!mongo.IsTimeout(err) || ctx.Err() != nil) {
			return err
		}
	}
	return nil
}

// lookTimeout is how long a start waits for the newest documents.
const lookTimeout = 2 * time.Second

// CheckExists returns a configuration error where the database has no collection of
// profiles: its name may be wrong.
func (s *Store) CheckExists(ctx context.Context) error {
	_, err := s.indexes(ctx)
	return err
}

// indexes lists those of the profiles; every collection has one.
func (s *Store) indexes(ctx context.Context) ([]mongo.IndexSpecification, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	all, err := s.users.Indexes().ListSpecifications(ctx)
	if err != nil && !hasCode(err, codeNamespaceNotFound) {
		return nil, mark("list the indexes of "+collectionUsers, err)
	}
	if len(all) == 0 {
		return nil, engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
			"the database %s has no collection %s: is %s right? %s creates it",
			s.config.Database, collectionUsers, databaseSetting, setupCommand))
	}
	return all, nil
}

func (s *Store) checkIndex(ctx context.Context) error {
	indexes, err := s.indexes(ctx)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		keys, err := index.KeysDocument.Elements()
		if err == nil && len(keys) == 1 && keys[0].Key() == fieldUser && index.Unique != nil && *index.Unique {
			return nil
		}
	}
	return engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
		"%s.%s has no unique index on %s: run %s", s.config.Database, collectionUsers, fieldUser, setupCommand))
}

// checkValidator returns a configuration fault where the validator is of a setup that knew
// arrays only and this process writes binaries, or knew no types of the shop's and this process
// has some: writes would be refused.
func (s *Store) checkValidator(ctx context.Context) error {
	own := slices.ContainsFunc(profile.EventTypes(), profile.EventType.Own)
	if s.config.Format != Binary && !own {
		return nil
	}
	specs, err := s.database.ListCollectionSpecifications(ctx, bson.D{{Key: "name", Value: collectionUsers}})
	if err != nil {
		return nil //nolint:nilerr // a server that does not tell has no such validator, or says so with the first write
	}
	for _, spec := range specs {
		rules := []string{"validator", "$jsonSchema", "anyOf", "0", "properties"}
		list := spec.Options.Lookup(append(rules, fieldLastType, "enum")...)
		if _, listed := list.ArrayOK(); listed && own {
			return engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
				"the validator of %s.%s has a list of event types, without those of %s: run %s", s.config.Database, collectionUsers, typesSetting, setupCommand))
		}
		rule := spec.Options.Lookup(append(rules, fieldEmbedding, "bsonType")...)
		if only, ok := rule.StringValueOK(); ok && only == "array" && s.config.Format == Binary {
			return engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
				"the validator of %s.%s admits arrays only, and %s is %s: run %s", s.config.Database, collectionUsers, formatSetting, Binary, setupCommand))
		}
	}
	return nil
}

// newestProfiles is how many profiles stand for all of them.
const newestProfiles = 5

func (s *Store) checkSettings(ctx context.Context) error {
	var faults []error
	fit := 0
	filter := bson.D{{Key: fieldErased, Value: nil}}
	how := options.Find().SetSort(bson.D{{Key: fieldUpdated, Value: -1}}).SetLimit(newestProfiles)
	err := s.find(ctx, s.users, filter, how, func(doc bson.Raw) error {
		p, err := s.codec.profile(doc)
		if err == nil {
			err = s.config.match(p)
		}
		if err == nil {
			fit++
		} else {
			faults = append(faults, err)
		}
		return nil
	})
	if err != nil || len(faults) <= fit {
		return err
	}
	return faults[0]
}

// newestProducts is how many products stand for all of them.
const newestProducts = 5

// checkProducts returns a configuration fault where the newest products all have
// vectors of another length or of another training, and where there are none and they are
// to have learned components: each of their events would be dead-lettered, or skipped.
func (s *Store) checkProducts(ctx context.Context) error {
	own := profile.LearnedIn(s.config.Model)
	var fault error
	if own.Components > 0 {
		fault = engine.ConfigurationError(reasonSettings, fmt.Errorf("%s is %v, and the database %s has no products: is %s right? %s makes them",
			learnedSetting, own, s.config.Database, databaseSetting, learnCommand))
	}
	fits := false
	how := options.Find().SetSort(bson.D{{Key: fieldID, Value: -1}}).SetLimit(newestProducts)
	err := s.find(ctx, s.products, bson.D{}, how, func(doc bson.Raw) error {
		p, err := s.codec.product(doc)
		switch n := len(p.Vector); {
		case err != nil:
			fits = true
		case p.Model != "" && profile.LearnedIn(p.Model) != own:
			fault = s.otherTraining(&p, own)
		case n != s.config.Dimensions && n > 0:
			fault = engine.ConfigurationError(reasonSettings, fmt.Errorf(
				"%s is %d, product %d has %d: set %s=%d, or import the products again (%s)",
				dimensionsSetting, s.config.Dimensions, p.ID, n, dimensionsSetting, n, importCommand))
		default:
			fits = true
		}
		return nil
	})
	if err != nil || fits {
		return err
	}
	return fault
}

// otherTraining says that a product's learned components are not those of the settings.
func (s *Store) otherTraining(p *profile.Product, own profile.Learned) error {
	stored := profile.LearnedIn(p.Model)
	return engine.ConfigurationError(reasonSettings, fmt.Errorf(
		"%s is %q, product %d of the database %s has %q, and vectors of two trainings cannot be compared: set %s=%v and %s=%d, or another %s",
		learnedSetting, own, p.ID, s.config.Database, stored, learnedSetting, stored, dimensionsSetting, len(p.Vector), databaseSetting))
}

// quoted is the setting of what a model has learned; "" for nothing.
func quoted(model string) string { return fmt.Sprintf("%q", profile.LearnedIn(model)) }

// match returns a configuration fault that names each setting in which a profile
// differs.
func (c Config) match(p *profile.Profile) error {
	var differ []error
	var cures []string
	compare := func(setting cure.Name, configured, stored any) {
		if configured != stored {
			differ = append(differ, fmt.Errorf("%s is %v, the profile has %v", setting, configured, stored))
			cures = append(cures, fmt.Sprintf("%s=%v", setting, stored))
		}
	}
	compare(dimensionsSetting, c.Dimensions, len(p.Vector))
	compare(historySetting, c.History, p.History)
	if p.Model != "" {
		compare(modelSetting, profile.TextModel(c.Model), profile.TextModel(p.Model))
		compare(learnedSetting, quoted(c.Model), quoted(p.Model))
	}
	if p.Short.Vector != nil {
		compare(shortSetting, c.ShortHalfLife, p.Short.HalfLife)
	}
	if len(differ) == 0 {
		return nil
	}
	return engine.ConfigurationError(reasonSettings, fmt.Errorf(
		"the profile of user %d was made with other settings: %w: set %s, or make all anew "+
			"(products with %s, then profiles with %s), or use another %s",
		p.UserID, errors.Join(differ...), strings.Join(cures, " "), importCommand, rebuildCommand, databaseSetting))
}
