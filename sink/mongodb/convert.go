package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine/profile"
)

// Convert writes the vectors of every profile in the configured [Format], and returns how
// many profiles had another. Versions stay, so workers may be at work: a profile that one
// writes meanwhile has that worker's format. A profile whose
// vector cannot be read stays as it is; one without a readable user_id ends it with an error.
func (s *Store) Convert(ctx context.Context) (converted int64, err error) {
	all := inOrder(ctx, s, s.users, fieldUser, int64(probeUser), func(doc bson.Raw) (bson.Raw, int64, error) {
		user, ok := userOf(doc)
		if !ok { // where the next page begins is not known
			return nil, 0, damaged("a profile without a readable user_id", fmt.Errorf("has the _id %v", doc.Lookup(fieldID)))
		}
		return slices.Clone(doc), int64(user), nil
	})
	var models []mongo.WriteModel
	write := func() error {
		n, err := s.convertAll(ctx, models)
		models, converted = models[:0], converted+n
		return err
	}
	for doc, err := range all {
		if err != nil {
			return converted, err
		}
		if model := s.codec.conversion(bsoncore.Document(doc)); model != nil {
			models = append(models, model)
		}
		if len(models) == pageDocuments {
			if err := write(); err != nil {
				return converted, err
			}
		}
	}
	return converted, write()
}

func (s *Store) convertAll(ctx context.Context, models []mongo.WriteModel) (int64, error) {
	if len(models) == 0 {
		return 0, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	result, err := s.users.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if exception, ok := errors.AsType[mongo.BulkWriteException](err); ok && len(exception.WriteErrors) > 0 {
		err = exception.WriteErrors[0].WriteError // one stands for all
	}
	if err != nil {
		return 0, markWrite("convert profiles", err)
	}
	return result.ModifiedCount, nil
}

// conversion returns the update of a document whose vectors have another format, nil where
// there is none.
func (c *codec) conversion(doc bsoncore.Document) mongo.WriteModel {
	var version int32
	user, ok := userOf(bson.Raw(doc))
	if !ok || readInt32(doc.Lookup(fieldVersion), &version) != nil {
		return nil
	}
	start, update := bsoncore.AppendDocumentStart(nil)
	set, update := bsoncore.AppendDocumentElementStart(update, "$set")
	empty := len(update)
	for _, field := range []string{fieldEmbedding, fieldShort} {
		v := doc.Lookup(field)
		if v.Type == 0 || v.Type == c.format.bsonType() {
			continue
		}
		vector, err := c.vector.vectorOf(v, c.dimensions)
		if err != nil || len(vector) != c.dimensions {
			return nil
		}
		update = c.appendElement(update, field, vector)
	}
	if len(update) == empty {
		return nil
	}
	before := profile.Profile{UserID: user, Version: version + 1} // the filter finds the version before
	return &mongo.UpdateOneModel{Filter: bson.Raw(appendDue(nil, &before)), Update: bson.Raw(endDocument(endDocument(update, set), start))}
}

func (f Format) bsonType() bsoncore.Type {
	if f == Binary {
		return bsoncore.TypeBinary
	}
	return bsoncore.TypeArray
}
