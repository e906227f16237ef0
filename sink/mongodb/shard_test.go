package mongodb

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sinktest"
)

// openSharded is openReady on a mongos, with both collections sharded.
func openSharded(t testing.TB, n int) (*mongotest.Server, *Store) {
	t.Helper()
	server := standIn(t, "to be a mongos", mongotest.WithMongos())
	s := open(t, settings(server.URI(), n))
	shardBy(t, s, collectionProducts, bson.D{{Key: fieldProduct, Value: "hashed"}})
	if key, notices, err := s.SetupSharded(ctx); key != "{user_id: hashed}" || err != nil || len(notices) > 0 {
		t.Fatalf("SetupSharded: %q, %v, %v", key, notices, err)
	}
	return server, s
}

func shardBy(t testing.TB, s *Store, collection string, key bson.D) {
	t.Helper()
	must.OK(t, s.client.Database("admin").RunCommand(ctx, bson.D{
		{Key: "shardCollection", Value: s.config.Database + "." + collection}, {Key: "key", Value: key},
	}).Err())
}

// Promise(mongodb/sharding): user_embeddings is sharded by the hash of its unique field; another key
// or a server that is no mongos is refused before a change.
func TestSetupSharded(t *testing.T) {
	_, s := openSharded(t, 4)
	put(t, s, newProfile(1, 1))
	for range 2 { // and where there are documents
		if key, notices, err := s.SetupSharded(ctx); key != "{user_id: hashed}" || err != nil || len(notices) > 0 {
			t.Errorf("again: %q, %v, %v", key, notices, err)
		}
	}
	must.OK(t, s.Check(ctx))
	if err := s.Swap(ctx, []*profile.Profile{newProfile(1, 1)})[0]; err != engine.ErrConflict { //nolint:errorlint // nothing is to be around it
		t.Errorf("a second document of one user: %v", err)
	}
}

// The first documents come after the key: a collection that is not empty is sharded where it is.
//
// Promise(mongodb/sharding)
func TestSetupShardsAnEmptyCollection(t *testing.T) {
	server := standIn(t, "to be a mongos", mongotest.WithMongos())
	s := open(t, settings(server.URI(), 4))
	failCommand(t, s, "alwaysOn", bson.M{"failCommands": bson.A{"shardCollection"}, "errorCode": 1})
	if _, _, err := s.SetupSharded(ctx); err == nil {
		t.Fatal("shardCollection failed, and setup did not")
	}
	if _, err := s.users.FindOne(ctx, bson.D{}).Raw(); err != mongo.ErrNoDocuments { //nolint:errorlint // the driver returns it bare
		t.Errorf("the collection is not empty when it is to be sharded: %v", err)
	}
}

// What is there already is sharded too: the index of the key is made before.
//
// Promise(mongodb/sharding)
func TestSetupShardsWhatIsThere(t *testing.T) {
	server := standIn(t, "to be a mongos", mongotest.WithMongos())
	s := openReady(t, settings(server.URI(), 4))
	put(t, s, newProfile(1, 1))
	if key, _, err := s.SetupSharded(ctx); key != "{user_id: hashed}" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	must.OK(t, s.Check(ctx))
}

// Promise(mongodb/sharding)
func TestSetupShardedKeepsARangedKey(t *testing.T) {
	server := standIn(t, "to be a mongos", mongotest.WithMongos())
	s := openReady(t, settings(server.URI(), 4))
	shardBy(t, s, collectionUsers, bson.D{{Key: fieldUser, Value: 1}})
	if key, _, err := s.SetupSharded(ctx); key != "{user_id: 1}" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
}

// Promise(mongodb/sharding)
func TestSetupShardedRefuses(t *testing.T) {
	fault := func(t *testing.T, server *mongotest.Server, s *Store, texts ...string) {
		t.Helper()
		_, _, err := s.SetupSharded(ctx)
		if engine.KindOf(err) != engine.Configuration {
			t.Fatalf("%v, want a configuration fault", err)
		}
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q is missing in: %v", text, err)
			}
		}
		if stats, err := server.Stats(); err != nil || stats.Commands["create"]+stats.Commands["createIndexes"] > 0 {
			t.Errorf("it changed something before: %v, %v", stats.Commands, err)
		}
	}
	t.Run("a replica set", func(t *testing.T) {
		server := standIn(t, "to count commands")
		fault(t, server, open(t, settings(server.URI(), 4)), "no mongos", "without replicaSet=", "leave --shard out")
	})
	for name, key := range map[string]bson.D{
		"another field":  {{Key: fieldID, Value: "hashed"}},
		"another order":  {{Key: fieldUser, Value: -1}},
		"another object": {{Key: fieldUpdated, Value: 1}},
	} {
		for _, collection := range []string{collectionUsers, collectionProducts} {
			t.Run(name+" of "+collection, func(t *testing.T) {
				server := standIn(t, "to be a mongos", mongotest.WithMongos())
				s := open(t, settings(server.URI(), 4))
				shardBy(t, s, collection, key)
				fault(t, server, s, collection+" is sharded by "+keyText(key), "reshardCollection", "run mongodb.Shard again")
			})
		}
	}
	t.Run("a right is missing", func(t *testing.T) {
		s := open(t, settings(standIn(t, "to be a mongos", mongotest.WithMongos()).URI(), 4))
		failCommand(t, s, "alwaysOn", bson.M{"failCommands": bson.A{"enableSharding"}, "errorCode": codeUnauthorized})
		_, _, err := s.SetupSharded(ctx)
		if engine.ReasonOf(err) != reasonRights || !strings.Contains(err.Error(), "clusterManager") {
			t.Errorf("%v, want a missing right with its cure", err)
		}
	})
}

// broadcasts are the operations that go to every shard: the first read of a start, a check of
// the settings against the newest documents, and the pages of an export.
var broadcasts = []string{
	"find user_embeddings by ()", "find user_embeddings by (erased_at)", "find product_embeddings by ()",
	"find user_embeddings by (user_id)", "find product_embeddings by (product_id)",
}

// targeted fails the test where a command for one user or product went to every shard.
func targeted(t testing.TB, server *mongotest.Server) {
	t.Helper()
	stats, err := server.Stats()
	must.OK(t, err)
	for shape := range stats.Broadcasts {
		if !slices.Contains(broadcasts, shape) {
			t.Errorf("%s goes to every shard", shape)
		}
	}
}

// The whole suite of stores passes on a sharded collection, whose server refuses a write without the key.
//
// Promise(mongodb/shard-key)
func TestConformanceSharded(t *testing.T) {
	t.Parallel() // it has servers of its own
	sinktest.Run(t, func(t *testing.T) sinktest.Store {
		server, s := openSharded(t, 8)
		t.Cleanup(func() { targeted(t, server) })
		return conformant(t, s)
	})
}

// Every statement but those of broadcasts carries the shard key: a write, its conflicts, the reading back of
// an unclear outcome, what is taken back, a probe, an erasure of every kind, products.
//
// Promise(mongodb/shard-key): Every statement on one user or product has its id, the shard key.
func TestStatementsCarryTheShardKey(t *testing.T) {
	server, s := openSharded(t, 4)
	s = open(t, s.config)
	must.OK(t, s.Check(ctx))
	put(t, s, newProfile(1, 1), newProfile(2, 1), newProfile(3, 1))
	put(t, s, newProfile(1, 2))
	// One of two versions has moved: the bulk is read back. Then one that was written over since.
	errs := s.Swap(ctx, []*profile.Profile{newProfile(1, 2), newProfile(2, 2)})
	if errs[0] != engine.ErrConflict || errs[1] != nil { //nolint:errorlint // nothing is to be around it
		t.Fatalf("%v", errs)
	}
	_, err := s.Load(ctx, []int32{1, 2, 3, 4})
	must.OK(t, err)
	must.OK(t, s.Probe(ctx))
	must.OK(t, s.Forget(ctx, 2, 1))
	must.OK(t, s.Forget(ctx, 9, 1)) // never seen
	for user, version := range map[int32]any{5: "three", 6: int64(3)} {
		_, err := s.users.InsertOne(ctx, bson.D{{Key: fieldUser, Value: user}, {Key: fieldVersion, Value: version}, {Key: "note", Value: "foreign"}},
			options.InsertOne().SetBypassDocumentValidation(true))
		must.OK(t, err)
		must.OK(t, s.Forget(ctx, user, 1))
	}
	must.OK(t, s.PutProducts(ctx, []profile.Product{{ID: 1, Vector: []float32{1, 2, 3, 4}}}, 1))
	must.OK(t, s.PutProducts(ctx, []profile.Product{{ID: 1, Vector: []float32{4, 3, 2, 1}}}, 2))
	if products, err := s.Products(ctx, []int32{1, 2}); len(products) != 1 || err != nil {
		t.Errorf("%v, %v", products, err)
	}
	for _, err := range s.AllProducts(ctx) {
		must.OK(t, err)
	}
	for _, err := range s.AllProfiles(ctx) {
		must.OK(t, err)
	}
	targeted(t, server)
	stats, err := server.Stats()
	must.OK(t, err)
	for _, shape := range broadcasts {
		if stats.Broadcasts[shape] == 0 {
			t.Errorf("%s is listed, and was not seen: the stand-in does not count, or the list is too long", shape)
		}
	}
}

// One shard of many that cannot be reached is told from a fault of its users' documents: their events wait
// with no attempt used, and the users of the other shards are written.
//
// Promise(away/lost-shard)
func TestALostShardIsAway(t *testing.T) {
	server, s := openSharded(t, 4)
	for _, code := range codesOfLostShard {
		put(t, s, newProfile(1, 1), newProfile(20, 1))
		refusing(t, server, s, int32(code), 10)
		if errs := s.Swap(ctx, []*profile.Profile{newProfile(1, 2), newProfile(20, 2)}); errs[0] != nil ||
			!errors.Is(errs[1], engine.ErrAway) || engine.KindOf(errs[1]) != engine.Transient {
			t.Errorf("code %d: Swap says %v", code, errs)
		}
		must.OK(t, server.Remove(0))
		_, err := s.users.DeleteMany(ctx, among(fieldUser, []int32{1, 20}))
		must.OK(t, err)
	}
	for _, code := range []int{133, 202} { // the driver repeats reads that fail with the others, until their time is over
		failCommand(t, s, "alwaysOn", bson.M{"failCommands": bson.A{"find"}, "errorCode": code})
		if _, err := s.Load(ctx, []int32{1, 20}); !errors.Is(err, engine.ErrAway) || engine.KindOf(err) != engine.Transient {
			t.Errorf("code %d: Load says %v", code, err)
		}
	}
}
