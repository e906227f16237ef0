package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"keyfold/engine"
)

// SetupSharded is [Store.Setup] on a sharded cluster: it shards user_embeddings by the
// hash of user_id, beside the unique index on user_id. It returns the shard key, as text.
// The probes' document comes last: an empty collection gets its chunks on all shards at once,
// any other begins on one.
//
// The two go together because a document's shard depends on user_id alone, so that two
// documents of one user meet in one shard's index. A hashed index cannot be unique itself.
// Source: MongoDB manual, "Hashed Indexes", "Unique Constraint"; the server's
// ShardKeyPattern::isIndexUniquenessCompatible.
//
// A collection that is sharded by {user_id: 1} stays so: uniqueness holds there as well.
// Errors that are [engine.ConfigurationError] beside those of Setup: the server is no
// mongos, or a collection is sharded by another key, which keyfold's writes do not carry.
func (s *Store) SetupSharded(ctx context.Context) (key string, notices []string, err error) {
	if err := s.checkMongos(ctx); err != nil {
		return "", nil, err
	}
	// No right to read config is found out before anything is changed, and so are other keys.
	if key, err = s.shardKey(ctx, s.users, fieldUser); err != nil {
		return "", nil, err
	}
	if _, err := s.shardKey(ctx, s.products, fieldProduct); err != nil {
		return "", nil, err
	}
	notices, err = s.setUp(ctx, func(ctx context.Context) error {
		if key != "" {
			return nil
		}
		key, err = s.shard(ctx)
		return err
	})
	return key, notices, err
}

// checkMongos returns a configuration fault where the server is no mongos.
// Source: MongoDB manual, hello: msg is "isdbgrid" on a mongos.
func (s *Store) checkMongos(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var answer struct {
		Message string `bson:"msg"`
	}
	if err := s.database.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&answer); err != nil {
		return mark("ask whether the server is a mongos", err)
	}
	if answer.Message != "isdbgrid" {
		return engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
			"%s leads to a server that is no mongos, and only a sharded cluster can shard: name the cluster's "+
				"mongos in %s, without replicaSet=, or leave --shard out", uriSetting, uriSetting))
	}
	return nil
}

// shardKey returns the key by which a collection is sharded, "" where it is not. A key
// other than field, hashed or ascending, is a configuration fault.
func (s *Store) shardKey(ctx context.Context, of *mongo.Collection, field string) (string, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	namespace := s.config.Database + "." + of.Name()
	var sharded struct {
		Key       bson.D `bson:"key"`
		Dropped   bool   `bson:"dropped"`      // before server 5.0 the entry outlives the collection
		Unsharded bool   `bson:"unsplittable"` // from server 8.0 the entry may be of a collection that is not sharded
	}
	err := s.client.Database("config").Collection("collections").FindOne(ctx, bson.D{{Key: fieldID, Value: namespace}}).Decode(&sharded)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments), err == nil && (sharded.Dropped || sharded.Unsharded):
		return "", nil
	case err != nil:
		return "", mark("read which collections are sharded (this takes the role clusterManager)", err)
	}
	if len(sharded.Key) == 1 && sharded.Key[0].Key == field && slices.Contains([]string{"hashed", "1"}, fmt.Sprint(sharded.Key[0].Value)) {
		return keyText(sharded.Key), nil
	}
	return "", engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
		"%s is sharded by %s, and keyfold's writes carry %s: change the key in mongosh with "+
			`db.adminCommand({reshardCollection: "%s", key: {%s: "hashed"}}), and run %s again`,
		namespace, keyText(sharded.Key), field, namespace, field, shardCommand))
}

func keyText(key bson.D) string {
	text := ""
	for i, e := range key {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s: %v", e.Key, e.Value)
	}
	return "{" + text + "}"
}

// shard shards the profiles. The index of the key has to be there before where
// the collection is not empty.
func (s *Store) shard(ctx context.Context) (key string, err error) {
	hashed := bson.D{{Key: fieldUser, Value: "hashed"}}
	if err := s.index(ctx, s.users, mongo.IndexModel{Keys: hashed}); err != nil {
		return "", err
	}
	admin := s.client.Database("admin")
	for _, command := range []bson.D{
		{{Key: "enableSharding", Value: s.config.Database}}, // servers before 6.0 want it; repeated it changes nothing
		{{Key: "shardCollection", Value: s.config.Database + "." + collectionUsers}, {Key: "key", Value: hashed}},
	} {
		ctx, cancel := s.bounded(ctx)
		err := admin.RunCommand(ctx, command).Err()
		cancel()
		if hasCode(err, codeUnauthorized) {
			return "", engine.ConfigurationError(reasonRights, fmt.Errorf(
				"MongoDB denies %s: grant the user of %s the role clusterManager on admin, or run setup --shard as another user: %w",
				command[0].Key, uriSetting, err))
		}
		if err != nil {
			return "", mark(command[0].Key+" "+collectionUsers, err)
		}
	}
	return keyText(hashed), nil
}
