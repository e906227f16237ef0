package mongodb

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
)

// notSetUp checks that err is the fault of a store without the unique index, with
// the cure.
func notSetUp(t *testing.T, doing string, err error) {
	t.Helper()
	if engine.ReasonOf(err) != reasonNotSetUp || engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "mongodb.Setup") {
		t.Errorf("%s: %v, want the fault of a store that is not set up", doing, err)
	}
}

// dropIndex leaves the collection with the documents of users and without an index.
func dropIndex(t *testing.T, s *Store, users ...int32) {
	t.Helper()
	var all []bson.Raw
	must.OK(t, s.find(ctx, s.users, among(fieldUser, append(users, probeUser)), options.Find(), func(doc bson.Raw) error {
		all = append(all, slices.Clone(doc))
		return nil
	}))
	must.OK(t, s.users.Drop(ctx))
	_, err := s.users.InsertMany(ctx, all)
	must.OK(t, err)
}

// aged makes the last look at the index old.
func aged(s *Store) {
	if last := s.guard.last.Load(); last != nil {
		s.guard.last.Store(&look{at: last.at.Add(-lookEvery), doubts: last.doubts})
	}
}

// documents is how many the collection has of a user.
func documents(t *testing.T, s *Store, user int32) int {
	t.Helper()
	n := 0
	must.OK(t, s.find(ctx, s.users, among(fieldUser, []int32{user}), options.Find(), func(bson.Raw) error { n++; return nil }))
	return n
}

// A store that is emptied under running workers lacks the unique index. None of them
// writes into it before it was set up again.
//
// Promise(away/emptied-store): Workers write nothing into an emptied store, skip no event, name
// `keyfold setup`, and go on by themselves after it.
func TestEmptiedStore(t *testing.T) {
	for name, empty := range map[string]func(*Store) error{
		"the database is dropped":   func(s *Store) error { return s.database.Drop(ctx) },
		"the collection is dropped": func(s *Store) error { return s.users.Drop(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			c := settings(uri(t), 4)
			s := openReady(t, c)
			other := open(t, c)
			put(t, s, newProfile(1, 1))
			put(t, other, newProfile(2, 1))
			must.OK(t, empty(s))
			notSetUp(t, "a probe", s.Probe(ctx)) // a breaker's
			for _, worker := range []*Store{s, other} {
				if p := stored(t, worker, 1); p != nil {
					t.Fatalf("an emptied store has %+v", p)
				}
				notSetUp(t, "an insert", worker.Swap(ctx, []*profile.Profile{newProfile(1, 1)})[0])
				notSetUp(t, "an update", worker.Swap(ctx, []*profile.Profile{newProfile(2, 2)})[0])
				_, err := worker.Products(ctx, []int32{1})
				notSetUp(t, "a product that is not there", err)
			}
			if n := documents(t, s, 1); n != 0 {
				t.Errorf("%d documents were written", n)
			}
			if _, err := s.Setup(ctx); err != nil {
				t.Fatal(err)
			}
			put(t, s, newProfile(1, 1))
			if err := other.Swap(ctx, []*profile.Profile{foreign(1, 1)})[0]; !errors.Is(err, engine.ErrConflict) {
				t.Errorf("the second insert of one user: %v, want a conflict", err)
			}
			must.OK(t, s.Check(ctx))
		})
	}
}

// A server that is started anew and empty under running workers: the first thing
// that comes is the probe of a worker's breaker, which must not make the collection
// look as if it had been set up.
//
// Promise(away/emptied-store)
func TestStoreStartedAnew(t *testing.T) {
	server := standIn(t, "a start without its data")
	c := settings(server.URI(), 4)
	quick(&c)
	s := openReady(t, c)
	cached := openReady(t, c) // writes users that it has loaded before
	put(t, s, newProfile(1, 1))
	put(t, cached, newProfile(2, 1))
	must.OK(t, server.Close())
	if err := s.Probe(ctx); err == nil {
		t.Fatal("the store answers")
	}
	mongotest.Start(t, mongotest.WithAddress(server.Addr()))
	notSetUp(t, "a probe", await(t, func() error { return s.Probe(ctx) }))
	notSetUp(t, "an insert", s.Swap(ctx, []*profile.Profile{newProfile(3, 1)})[0])
	notSetUp(t, "an insert of another worker", await(t, func() error { return cached.Swap(ctx, []*profile.Profile{newProfile(3, 1)})[0] }))
	if n := documents(t, s, 3); n != 0 {
		t.Errorf("%d documents were written", n)
	}
	if _, err := s.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	put(t, cached, newProfile(3, 1))
	put(t, s, newProfile(4, 1))
}

// await calls do until the server answers.
func await(t *testing.T, do func() error) error {
	t.Helper()
	for {
		if err := do(); err == nil || engine.KindOf(err) != engine.Transient {
			return err
		}
	}
}

// An index that is dropped while the documents stay is missed within lookEvery.
//
// Promise(away/emptied-store)
func TestDroppedIndex(t *testing.T) {
	s := start(t)
	put(t, s, newProfile(1, 1))
	dropIndex(t, s, 1)
	aged(s)
	notSetUp(t, "an insert", s.Swap(ctx, []*profile.Profile{newProfile(2, 1)})[0])
	notSetUp(t, "an insert again", s.Swap(ctx, []*profile.Profile{newProfile(2, 1)})[0])
	_, err := s.users.Indexes().CreateOne(ctx, unique(fieldUser))
	must.OK(t, err)
	put(t, s, newProfile(2, 1))
}

// The driver sends a bulk again when its connection was lost. Where the server was
// started anew and empty in between, the documents are taken back.
//
// Promise(away/emptied-store)
func TestInsertSentAgainToAnEmptiedStore(t *testing.T) {
	s := start(t)
	put(t, s, newProfile(1, 1))
	must.OK(t, s.database.Drop(ctx))
	writes := []write{{profile: newProfile(2, 1), answer: new(error)}}
	failCommand(t, s, bson.M{"times": 1}, bson.M{"failCommands": bson.A{"insert"}, "closeConnection": true})
	notSetUp(t, "an insert", s.insert(ctx, writes, new([]byte)))
	notSetUp(t, "its answer", *writes[0].answer)
	if n := documents(t, s, 2); n != 0 {
		t.Errorf("%d documents stay", n)
	}
}

// The look is asked for once in a while, not by every write.
//
// Promise(away/emptied-store)
func TestLooksAreFew(t *testing.T) {
	server, s := startStandIn(t, "how many commands came")
	looks := func() int64 {
		stats, err := server.Stats()
		must.OK(t, err)
		return stats.Commands["listIndexes"]
	}
	put(t, s, newProfile(1, 1))
	before := looks()
	for version := int32(2); version < 20; version++ {
		put(t, s, newProfile(1, version))
		stored(t, s, 1)
		_, err := s.Products(ctx, []int32{1})
		must.OK(t, err)
	}
	if n := looks() - before; n != 0 {
		t.Errorf("%d looks", n)
	}
	aged(s)
	put(t, s, newProfile(2, 1))
	if n := looks() - before; n != 1 {
		t.Errorf("%d looks after %v", n, lookEvery)
	}
}

// A collection that was emptied and kept its indexes goes on, and is marked again.
func TestEmptiedCollectionWithItsIndexes(t *testing.T) {
	s := start(t)
	put(t, s, newProfile(1, 1))
	if _, err := s.users.DeleteMany(ctx, bson.D{}); err != nil {
		t.Fatal(err)
	}
	if p := stored(t, s, 1); p != nil {
		t.Fatalf("stored: %+v", p)
	}
	put(t, s, newProfile(1, 1))
	if n := documents(t, s, probeUser); n != 1 {
		t.Errorf("%d marks", n)
	}
}

// Where another program's validator takes no mark, the index alone counts.
func TestCollectionThatTakesNoMark(t *testing.T) {
	s := open(t, settings(uri(t), 4))
	create := bson.D{{Key: "create", Value: collectionUsers}, {Key: "validator", Value: bson.D{{Key: fieldEmbedding, Value: bson.D{{Key: "$exists", Value: true}}}}}}
	must.OK(t, s.database.RunCommand(ctx, create).Err())
	_, err := s.users.Indexes().CreateOne(ctx, unique(fieldUser))
	must.OK(t, err)
	for range 3 {
		must.OK(t, s.Probe(ctx))
		stored(t, s, 1)
	}
	put(t, s, newProfile(1, 1))
	dropIndex(t, s, 1)
	aged(s)
	notSetUp(t, "an insert", s.Swap(ctx, []*profile.Profile{newProfile(2, 1)})[0])
}

// A store that was never checked answers which products it has, also before it was set
// up: an import of products asks. One that was checked asks for its index again.
func TestProductsOfAStoreNotSetUp(t *testing.T) {
	s := open(t, settings(uri(t), 4))
	if found, err := s.Products(ctx, []int32{1}); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := s.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	must.OK(t, s.Check(ctx))
	must.OK(t, s.database.Drop(ctx))
	aged(s)
	_, err := s.Products(ctx, []int32{1})
	notSetUp(t, "a product that is not there", err)
}
