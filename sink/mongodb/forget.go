package mongodb

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine"
)

// forgetPause lets a majority catch up with a document that only a duplicate
// key has told of.
const forgetPause = 10 * time.Millisecond

// Forget implements [profile.Eraser]. It may be repeated after any error.
func (s *Store) Forget(ctx context.Context, user int32, at engine.Millis) error {
	if err := ended(ctx, "forget"); err != nil {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	for {
		err := s.erase(ctx, user, at)
		if hasCode(err, codeValidation, codeTypeMismatch) {
			err = s.eraseForeign(ctx, user, at)
		}
		if err != nil && !hasCode(err, codeDuplicateKey) {
			return markWrite("forget", err)
		}
		t, err := s.tombstone(ctx, user)
		switch {
		case err != nil:
			return err
		case t.erased != 0 && !t.live:
			return s.sweep(ctx, t)
		}
		// A worker inserted the user at this moment: the next update finds it.
		select {
		case <-time.After(forgetPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: MongoDB: forget user %d: %w", engine.ErrUnknown, user, ctx.Err())
		}
	}
}

// erase turns the document into a tombstone in one update, which no write of a
// worker can come between: it adds one to whatever version there is, and all
// later writes are refused, as their filters exclude tombstones. Where there is
// a tombstone already, the upsert meets a duplicate key.
func (s *Store) erase(ctx context.Context, user int32, at engine.Millis) error {
	_, err := s.users.UpdateOne(ctx,
		bson.D{{Key: fieldUser, Value: user}, {Key: fieldErased, Value: nil}},
		bson.D{
			{Key: "$inc", Value: bson.D{{Key: fieldVersion, Value: int32(1)}}},
			{Key: "$set", Value: bson.D{{Key: fieldUser, Value: user}, {Key: fieldErased, Value: at.Time()}}},
			{Key: "$unset", Value: profileFields},
		},
		options.UpdateOne().SetUpsert(true))
	return err
}

// eraseForeign is erase for a document whose version another program wrote: adding
// to a long or a double does not make it an int, and to a text is refused. It
// replaces the very version it read; where that has changed, or the document has
// become a tombstone, nothing happens.
func (s *Store) eraseForeign(ctx context.Context, user int32, at engine.Millis) error {
	doc, err := s.users.FindOne(ctx, bson.D{{Key: fieldUser, Value: user}, {Key: fieldErased, Value: nil}},
		options.FindOne().SetProjection(bson.D{{Key: fieldVersion, Value: 1}})).Raw()
	if err == mongo.ErrNoDocuments { //nolint:errorlint // the driver returns it bare
		return nil
	}
	if err != nil {
		return err
	}
	// The user is in it because a sharded cluster routes by it.
	due := bson.D{{Key: fieldUser, Value: user}, {Key: fieldID, Value: doc.Lookup(fieldID)}, {Key: fieldErased, Value: nil}, {Key: fieldVersion, Value: nil}}
	var version int32
	if was, err := doc.LookupErr(fieldVersion); err == nil {
		due[3].Value = was
		_ = readInt32(bsoncore.Value{Type: bsoncore.Type(was.Type), Data: was.Value}, &version) // what is no number counts as 0
	}
	_, err = s.users.UpdateOne(ctx, due, bson.D{
		{Key: "$set", Value: bson.D{{Key: fieldUser, Value: user}, {Key: fieldVersion, Value: max(version, 0) + 1}, {Key: fieldErased, Value: at.Time()}}},
		{Key: "$unset", Value: profileFields},
	})
	return err
}

// profileFields are the fields that a tombstone does not have.
var profileFields = func() (fields bson.D) {
	for _, field := range append([]string{
		fieldEmbedding, fieldDimensions, fieldUpdated, fieldEventCount, fieldLastType, fieldCreatedAt,
		fieldWrittenAt, fieldMass, fieldHistory, fieldModel, fieldLastID, fieldApplied, fieldFloor, fieldMarks, fieldWriteID,
	}, shortFields...) {
		fields = append(fields, bson.E{Key: field, Value: ""})
	}
	return fields
}()

// tombstone is what a majority knows of an erased user.
type tombstone struct {
	user, version int32
	erased        engine.Millis // 0 while it is none
	foreign       bool          // has fields that another program added
	live          bool          // without the unique index, a second document may be none
}

func (s *Store) tombstone(ctx context.Context, user int32) (t tombstone, err error) {
	t.user = user
	err = s.find(ctx, s.users, among(fieldUser, []int32{user}), oneReply(1), func(doc bson.Raw) error {
		if v := bsoncore.Document(doc).Lookup(fieldErased); v.Type == 0 || v.Type == bsoncore.TypeNull {
			t.live = true
			return nil
		}
		return eachField(doc, func(key []byte, v bsoncore.Value) error {
			switch string(key) {
			case fieldID, fieldUser:
				return nil
			case fieldVersion:
				return readInt32(v, &t.version)
			case fieldErased:
				return readDate(v, &t.erased)
			}
			t.foreign = true
			return nil
		})
	})
	return t, err
}

// sweep removes what other programs added to the document. No other code writes a
// tombstone, so there is no race to lose.
func (s *Store) sweep(ctx context.Context, t tombstone) error {
	if !t.foreign {
		return nil
	}
	filter := bson.D{{Key: fieldUser, Value: t.user}, {Key: fieldVersion, Value: t.version}}
	_, err := s.users.ReplaceOne(ctx, filter, bson.D{
		{Key: fieldUser, Value: t.user},
		{Key: fieldVersion, Value: t.version},
		{Key: fieldErased, Value: t.erased.Time()},
	})
	return markWrite("forget", err)
}
