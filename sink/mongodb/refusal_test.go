package mongodb

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
)

// refusing has the server refuse every document from a user id on with a code of
// a statement.
func refusing(t testing.TB, server *mongotest.Server, s *Store, code int32, from int32) {
	t.Helper()
	match, err := bson.Marshal(bson.D{{Key: fieldUser, Value: bson.D{{Key: "$gte", Value: from}}}})
	must.OK(t, err)
	inject(t, server, mongotest.Fault{
		WriteError: code, Match: match, Namespace: s.namespace(),
	})
}

// A store that refuses every statement is away, whatever the code: user writes
// blocked (371), a lost shard behind a mongos (6, 89, 133, 202), too many
// requests (16500). One profile alone cannot tell, but the probe does.
//
// Promise(away/refused-writes)
func TestWholeStoreRefusalIsTheStores(t *testing.T) {
	for _, code := range []int32{371, 6, 89, 133, 202, 16500} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			server, s := startStandIn(t, "errors of statements", quick)
			put(t, s, newProfile(1, 1))
			refusing(t, server, s, code, probeUser)
			for _, profiles := range [][]*profile.Profile{
				{newProfile(2, 1)}, {newProfile(1, 2)}, {newProfile(1, 2), newProfile(2, 1), newProfile(3, 1), newProfile(4, 1)},
			} {
				for i, err := range s.Swap(ctx, profiles) {
					if err == nil || engine.KindOf(err) != engine.Transient || errors.Is(err, engine.ErrOwn) || errors.Is(err, engine.ErrUnknown) {
						t.Errorf("profile %d of %d: %v, want a failure of the store", i, len(profiles), err)
					}
				}
			}
			if err := s.Probe(ctx); err == nil || engine.KindOf(err) != engine.Transient {
				t.Errorf("the probe says %v", err)
			}
			must.OK(t, server.Remove(0))
			must.OK(t, s.Probe(ctx))
			put(t, s, newProfile(1, 2), newProfile(2, 1))
		})
	}
}

// Where the store takes other documents, a refusal is of the one document; where
// it takes none of several users', it is the store's again.
//
// Promise(away/refused-writes)
func TestRefusalsAreJudgedByShare(t *testing.T) {
	server, s := startStandIn(t, "errors of statements")
	refusing(t, server, s, 371, 10)
	own := func(want bool, profiles ...*profile.Profile) {
		t.Helper()
		for i, err := range s.Swap(ctx, profiles) {
			if refused := profiles[i].UserID >= 10; (err != nil) != refused || refused && errors.Is(err, engine.ErrOwn) != want {
				t.Errorf("user %d among %d: %v", profiles[i].UserID, len(profiles), err)
			}
		}
	}
	own(true, newProfile(10, 1))
	own(true, newProfile(1, 1), newProfile(10, 1), newProfile(11, 1), newProfile(12, 1), newProfile(13, 1))
	own(false, newProfile(10, 1), newProfile(11, 1), newProfile(12, 1))
}

// What a probe writes is a tombstone of no user: readers of profiles do not meet
// it, the validator takes it, and it does not grow.
//
// Promise(away/refused-writes)
func TestProbeIsNoProfile(t *testing.T) {
	s := openReady(t, settings(uri(t), 4))
	put(t, s, newProfile(1, 1))
	for range 3 {
		must.OK(t, s.Probe(ctx))
	}
	if n := counted(t, s.users, bson.D{}); n != 2 {
		t.Errorf("%d documents, want the profile and the probe", n)
	}
	for p, err := range s.AllProfiles(ctx) {
		must.OK(t, err)
		if p.UserID != 1 {
			t.Errorf("AllProfiles yields %+v", p)
		}
	}
	must.OK(t, s.Check(ctx))
}

// A deadlock refuses all that is left of a bulk with one code. Statements go in
// the order of users, so that workers do not meet it, and its victims again at once.
//
// Promise(away/deadlock): Writes go in the order of users, and what a store's deadlock refused is sent
// again at once.
func TestVictimsOfADeadlockAreSentAgain(t *testing.T) {
	server, s := startStandIn(t, "errors of statements")
	put(t, s, newProfile(1, 1), newProfile(2, 1), newProfile(3, 1))
	for _, command := range []string{"insert", "update"} {
		profiles := []*profile.Profile{newProfile(3, 2), newProfile(1, 2), newProfile(2, 2)}
		if command == "insert" {
			profiles = []*profile.Profile{newProfile(6, 1), newProfile(4, 1), newProfile(5, 1)}
		}
		inject(t, server, mongotest.Fault{WriteError: 121, Times: 1, Commands: []string{command}})
		for i, err := range s.Swap(ctx, profiles) {
			if first := i == 1; (err != nil) != first {
				t.Errorf("%s: the first statement is refused, and user %d got %v", command, profiles[i].UserID, err)
			}
		}
		profiles = []*profile.Profile{newProfile(3, 3), newProfile(2, 3)}
		if command == "insert" {
			profiles = []*profile.Profile{newProfile(9, 1), newProfile(8, 1), newProfile(7, 1)}
		}
		inject(t, server, mongotest.Fault{
			WriteError: 112, Skip: 1, Times: len(profiles) - 1, Commands: []string{command},
		})
		put(t, s, profiles...)
	}
}
