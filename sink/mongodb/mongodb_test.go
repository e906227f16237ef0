package mongodb

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	mongotest "keyfold/bench/testserver/mongodb"
	"keyfold/engine"
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

// open opens a store that is closed when the test ends, and its database
// dropped.
func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// openReady is open with everything set up.
func openReady(t testing.TB, c Config) *Store {
	t.Helper()
	s := open(t, c)
	if c.URI == os.Getenv("MONGODB_TEST_URI") { // the test server's goes with it
		t.Cleanup(func() {
			if err := s.database.Drop(ctx); err != nil {
				t.Errorf("drop the database: %v", err)
			}
		})
	}
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

// onEach runs a test on the test server and, where MONGODB_TEST_URI names one,
// on a real server.
func onEach(t *testing.T, test func(t *testing.T, uri func(*testing.T) string)) {
	t.Run("mongotest", func(t *testing.T) {
		test(t, func(t *testing.T) string { return mongotest.Start(t).URI() })
	})
	if uri := os.Getenv("MONGODB_TEST_URI"); uri != "" {
		t.Run("real", func(t *testing.T) { test(t, func(*testing.T) string { return uri }) })
	}
}

func TestConformance(t *testing.T) {
	onEach(t, func(t *testing.T, uri func(*testing.T) string) {
		sinktest.Run(t, func(t *testing.T) sinktest.Store { return conformant(t, openReady(t, settings(uri(t), 8))) })
	})
}

func TestRoundTripOfLongVectors(t *testing.T) {
	onEach(t, func(t *testing.T, uri func(*testing.T) string) {
		sinktest.RoundTrip(t, conformant(t, openReady(t, settings(uri(t), 1536))))
	})
}

// start returns a store of short vectors and the test server it is on.
func start(t testing.TB, change ...func(*Config)) (*mongotest.Server, *Store) {
	t.Helper()
	server := mongotest.Start(t)
	c := settings(server.URI(), 4)
	for _, f := range change {
		f(&c)
	}
	return server, openReady(t, c)
}

// quick makes a store give up soon.
func quick(c *Config) { c.Timeout, c.SelectionTimeout = 3*time.Second, 2*time.Second }

// profile returns version v of a user, with an id of its own.
func profile(user, version int32) *engine.Profile {
	p := sample(4)
	p.UserID, p.Version, p.WrittenAt = user, version, engine.Millis(1_700_000_000_000+int64(version))
	p.Mass = float64(version)
	p.Applied = engine.Applied{}
	for v := range version {
		p.Applied = p.Applied.With(writeOf(user, v+1), []engine.AppliedID{engine.DigestOf(fmt.Sprint(user, "/", v)).ID()},
			engine.Millis(1_700_000_000_000+int64(v)+1), engine.DefaultIDLimits())
	}
	return p
}

// writeOf is the group of ids that a profile of profile has of its write.
func writeOf(user, version int32) uint64 { return uint64(user)<<32 | uint64(version) }

// put writes profiles of which none may fail.
func put(t testing.TB, s *Store, profiles ...*engine.Profile) {
	t.Helper()
	for i, err := range s.Swap(ctx, profiles) {
		if err != nil {
			t.Fatalf("write user %d: %v", profiles[i].UserID, err)
		}
	}
}

// stored returns one user's document.
func stored(t testing.TB, s *Store, user int32) *engine.Profile {
	t.Helper()
	all, err := s.Load(ctx, []int32{user})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// inject puts a fault in force.
func inject(t testing.TB, server *mongotest.Server, f mongotest.Fault) {
	t.Helper()
	if _, err := server.Inject(f); err != nil {
		t.Fatal(err)
	}
}
