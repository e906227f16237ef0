package mongodb

import (
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

var databases atomic.Int32

// settings for vectors of n components, in a database of its own.
func settings(uri string, n int) Config {
	c := DefaultConfig()
	c.URI, c.Dimensions = uri, n
	c.Database = fmt.Sprintf("keyfold_test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), databases.Add(1))
	return c
}

// onMongod reports whether MONGODB_TEST_URI names a mongod. It may name a
// stand-in as well.
var onMongod = sync.OnceValue(func() bool {
	uri := os.Getenv("MONGODB_TEST_URI")
	if uri == "" {
		return false
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return true
	}
	defer func() { _ = client.Disconnect(ctx) }()
	info, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Raw()
	return err != nil || info.Lookup("modules", "0").String() != `"keyfold-mongotest"`
})

// uri is the server of MONGODB_TEST_URI, or else a stand-in of the test's own.
func uri(t testing.TB) string {
	t.Helper()
	if uri := os.Getenv("MONGODB_TEST_URI"); uri != "" {
		return uri
	}
	return mongotest.Start(t).URI()
}

// standIn starts a stand-in, for a test of what no mongod can be told to do:
// lacks says of what. Where the tests run against a mongod, it is skipped.
func standIn(t testing.TB, lacks string, options ...mongotest.Option) *mongotest.Server {
	t.Helper()
	if onMongod() {
		t.Skip("MONGODB_TEST_URI names a mongod, which has no command for: " + lacks)
	}
	return mongotest.Start(t, options...)
}

// parallel is t.Parallel where each test has its own server: a server has one
// failpoint failCommand.
func parallel(t *testing.T) {
	if os.Getenv("MONGODB_TEST_URI") == "" {
		t.Parallel()
	}
}

// open opens a store that is closed when the test ends, and its database
// dropped.
func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(ctx, c)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if c.URI == os.Getenv("MONGODB_TEST_URI") { // a stand-in's goes with it
		t.Cleanup(func() { _ = s.database.Drop(ctx) })
	}
	return s
}

// openReady is open with everything set up.
func openReady(t testing.TB, c Config) *Store {
	t.Helper()
	s := open(t, c)
	if notices, err := s.Setup(ctx); err != nil || len(notices) > 0 {
		t.Fatalf("Setup: %v, %v", notices, err)
	}
	return s
}

func conformant(t testing.TB, s *Store) sinktest.Store {
	return sinktest.Store{
		Profiles: s, Eraser: s, Dimensions: s.config.Dimensions,
		Delete: func(ctx context.Context, user int32) error {
			_, err := s.users.DeleteOne(ctx, bson.D{{Key: fieldUser, Value: user}})
			return err
		},
		Reopen: func() sinktest.Store { return conformant(t, open(t, s.config)) },
	}
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Store { return conformant(t, openReady(t, settings(uri(t), 8))) })
}

func TestRoundTripOfLongVectors(t *testing.T) {
	sinktest.RoundTrip(t, conformant(t, openReady(t, settings(uri(t), 1536))))
}

// start returns a store of short vectors.
func start(t testing.TB, change ...func(*Config)) *Store {
	t.Helper()
	return on(t, uri(t), change...)
}

// startStandIn is start on a stand-in.
func startStandIn(t testing.TB, lacks string, change ...func(*Config)) (*mongotest.Server, *Store) {
	t.Helper()
	server := standIn(t, lacks)
	return server, on(t, server.URI(), change...)
}

func on(t testing.TB, uri string, change ...func(*Config)) *Store {
	t.Helper()
	c := settings(uri, 4)
	for _, f := range change {
		f(&c)
	}
	return openReady(t, c)
}

// quick makes a store give up soon.
func quick(c *Config) { c.Timeout, c.SelectionTimeout = 3*time.Second, 2*time.Second }

// profile returns version v of a user, with an id of its own.
func newProfile(user, version int32) *profile.Profile {
	p := sample(4)
	p.UserID, p.Version, p.WrittenAt = user, version, engine.Millis(1_700_000_000_000+int64(version))
	p.Mass = float64(version)
	p.Applied = profile.Applied{}
	for v := range version {
		p.Applied = p.Applied.With(writeOf(user, v+1), []profile.AppliedID{profile.DigestOf(fmt.Sprint(user, "/", v)).ID()},
			engine.Millis(1_700_000_000_000+int64(v)+1), profile.DefaultIDLimits())
	}
	return p
}

// writeOf is the group of ids that a profile of profile has of its write.
func writeOf(user, version int32) uint64 { return uint64(user)<<32 | uint64(version) }

// put writes profiles of which none may fail.
func put(t testing.TB, s *Store, profiles ...*profile.Profile) {
	t.Helper()
	for i, err := range s.Swap(ctx, profiles) {
		if err != nil {
			t.Fatalf("write user %d: %v", profiles[i].UserID, err)
		}
	}
}

// stored returns one user's document.
func stored(t testing.TB, s *Store, user int32) *profile.Profile {
	t.Helper()
	all, err := s.Load(ctx, []int32{user})
	must.OK(t, err)
	return all[0]
}

// failCommand sets the server's failpoint failCommand, for the stores of this
// process, until the test's end.
func failCommand(t testing.TB, s *Store, mode any, data bson.M) {
	t.Helper()
	data = maps.Clone(data)
	data["appName"] = *s.config.clientOptions().AppName
	mongotest.FailCommand(t, s.config.URI, mode, data)
}

// failCommandOff ends it before.
func failCommandOff(t testing.TB, s *Store) {
	t.Helper()
	must.OK(t, mongotest.SetFailCommand(ctx, s.config.URI, "off", nil))
}

// inject puts a fault in force that only a stand-in knows.
func inject(t testing.TB, server *mongotest.Server, f mongotest.Fault) {
	t.Helper()
	if _, err := server.Inject(f); err != nil {
		t.Fatal(err)
	}
}
