package mongodb

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
)

// Round trips are what a store costs: one for any number of users up to the
// chunk, and a read after a write only where versions moved.
func TestRoundTrips(t *testing.T) {
	server, s := startStandIn(t, "how many commands came")
	var users []int32
	var first, second []*profile.Profile
	for user := int32(1); user <= loadChunk; user++ {
		users = append(users, user)
		first, second = append(first, newProfile(user, 1)), append(second, newProfile(user, 2))
	}
	count := func(what string, do func(), want map[string]int64) {
		t.Helper()
		before, err := server.Stats()
		must.OK(t, err)
		do()
		after, err := server.Stats()
		must.OK(t, err)
		for _, command := range []string{"find", "getMore", "killCursors", "insert", "update"} {
			if n := after.Commands[command] - before.Commands[command]; n != want[command] {
				t.Errorf("%s took %d %s, want %d", what, n, command, want[command])
			}
		}
	}
	load := func() {
		if _, err := s.Load(ctx, users); err != nil {
			t.Fatal(err)
		}
	}
	count("Load of nobody", load, map[string]int64{"find": 1})
	count("insert", func() { put(t, s, first...) }, map[string]int64{"insert": 1})
	count("update", func() { put(t, s, second...) }, map[string]int64{"update": 1})
	count("Load of all", load, map[string]int64{"find": 1})
	count("one conflict alone", func() { s.Swap(ctx, second[:1]) }, map[string]int64{"update": 1})
	first[0], first[1] = newProfile(1, 3), newProfile(2, 3)
	count("one conflict among others", func() {
		if errs := s.Swap(ctx, []*profile.Profile{first[0], first[1], second[2]}); errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], engine.ErrConflict) {
			t.Error(errs)
		}
	}, map[string]int64{"update": 1, "find": 1})
}

func TestManyUsers(t *testing.T) {
	s := start(t)
	var users []int32
	var profiles []*profile.Profile
	for user := int32(1); user <= 3*swapChunk+5; user++ {
		users = append(users, user)
		profiles = append(profiles, newProfile(user, 1))
	}
	put(t, s, profiles...)
	loaded, err := s.Load(ctx, append(users, 3, 3)) // a user may be asked for twice
	must.OK(t, err)
	for i, p := range loaded {
		if i < len(users) && !equal(p, profiles[i]) || i >= len(users) && p.UserID != 3 {
			t.Fatalf("entry %d is %+v", i, p)
		}
	}
	must.OK(t, s.Forget(ctx, 7, 42))
	var seen int32
	for p, err := range s.AllProfiles(ctx) {
		must.OK(t, err)
		if seen++; p.UserID != seen || p.Erased() != (p.UserID == 7) {
			t.Fatalf("document %d is %+v", seen, p)
		}
	}
	if int(seen) != len(users) {
		t.Errorf("AllProfiles yielded %d documents, want %d", seen, len(users))
	}
}

// A document of another worker is folded into: what keyfold does not know stays.
func TestForeignFieldsStayUntilForgotten(t *testing.T) {
	s := openReady(t, settings(uri(t), 3))
	if _, err := s.users.InsertOne(ctx, bson.Raw(plain(bson.E{Key: "segment", Value: "gold"}))); err != nil {
		t.Fatal(err)
	}
	p := *stored(t, s, 12345)
	p.Version++
	put(t, s, &p)
	document := func() bson.Raw {
		raw, err := s.users.FindOne(ctx, bson.D{{Key: fieldUser, Value: 12345}}).Raw()
		must.OK(t, err)
		return raw
	}
	if got, _ := document().Lookup("segment").StringValueOK(); got != "gold" {
		t.Errorf("a write left %v", document())
	}
	must.OK(t, s.Forget(ctx, 12345, 42))
	elements, err := document().Elements()
	if err != nil || len(elements) != 4 {
		t.Errorf("Forget left %v, want _id, user_id, version and erased_at", document())
	}
	if p := stored(t, s, 12345); p.Version != 14 || p.ErasedAt != 42 {
		t.Errorf("the tombstone is %+v", p)
	}
}

// A tombstone that only the primary has is none.
//
// Promise(mongodb/majority)
func TestForgetWithoutMajority(t *testing.T) {
	server, hasty := startStandIn(t, "a rollback", quick)
	put(t, hasty, newProfile(1, 1))
	must.OK(t, server.StallReplication())
	for user := int32(1); user <= 2; user++ {
		for range 2 { // the second one finds the tombstone of the first
			if err := hasty.Forget(ctx, user, 42); !errors.Is(err, engine.ErrUnknown) && engine.KindOf(err) != engine.Transient || err == nil {
				t.Errorf("user %d: %v, want an unknown outcome", user, err)
			}
		}
	}
	if _, err := server.Rollback(); err != nil {
		t.Fatal(err)
	}
	s := open(t, patient(hasty.config))
	if p := stored(t, s, 1); p.Erased() {
		t.Error("the erasure survived its rollback")
	}
	must.OK(t, s.Forget(ctx, 1, 43))
	if p := stored(t, s, 1); p.ErasedAt != 43 || p.Version != 2 {
		t.Errorf("the tombstone is %+v", p)
	}
}

// The upsert meets a duplicate key because a worker inserts the user at that
// moment: it is no tombstone that is there.
//
// Promise(mongodb/no-upsert): Profiles are inserted or updated on their version, never upserted: an
// upsert brings an erased user back.
// Promise(event/erased-user)
func TestForgetMeetsAnInsert(t *testing.T) {
	server, s := startStandIn(t, "errors of statements")
	put(t, s, newProfile(1, 1))
	inject(t, server, mongotest.Fault{WriteError: codeDuplicateKey, Commands: []string{"update"}, Times: 1})
	must.OK(t, s.Forget(ctx, 1, 42))
	if p := stored(t, s, 1); !p.Erased() || p.Version != 2 {
		t.Errorf("the user is %+v, want a tombstone", p)
	}
}

// A probe fails where writes would, though a ping would not.
func TestProbe(t *testing.T) {
	server, s := startStandIn(t, "a majority that is away", quick)
	must.OK(t, s.Probe(ctx))
	must.OK(t, s.Probe(ctx))
	must.OK(t, server.StallReplication())
	if err := s.Probe(ctx); err == nil {
		t.Error("a store without a majority passed")
	}
	must.OK(t, server.Replicate())
	data := concern(64)
	data["failCommands"] = bson.A{"update"}
	failCommand(t, s, bson.M{"times": 1}, data)
	if err := open(t, patient(s.config)).Probe(ctx); err == nil {
		t.Error("a write that met no majority passed")
	}
}

func TestCloseTwice(t *testing.T) {
	s := start(t)
	must.OK(t, s.Close())
	must.OK(t, s.Close())
	if _, err := s.Load(ctx, []int32{1}); err == nil {
		t.Error("a closed store answered")
	}
}
