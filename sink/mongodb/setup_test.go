package mongodb

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
)

func TestValidator(t *testing.T) {
	s := openReady(t, settings(uri(t), 3))
	// What a worker writes is accepted: see the conformance tests.
	at := time.UnixMilli(42)
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	for _, doc := range []bson.D{
		parse(plain()),
		{e("user_id", int32(1)), e("version", int32(2)), e("erased_at", at)},
		{e("user_id", int32(1)), e("version", int32(2)), e("erased_at", at), e("note", "another program's")},
	} {
		tryInsert(t, s, doc, 0)
	}
	for _, doc := range [][]bson.E{
		{e("user_id", int64(1))},
		{e("user_id", gone)},
		{e("embedding", gone)},
		{e("embedding", bson.A{0.6, 0.8})},
		{e("embedding", bson.A{0.6, 0.8, 0.0, 0.0})},
		{e("embedding", bson.A{0.6, 0.8, int32(0)})},
		{e("embedding", "x")},
		{e("dimension_count", gone)},
		{e("dimension_count", int32(4))},
		{e("dimension_count", int64(3))},
		{e("last_updated", gone)},
		{e("last_updated", "2026-02-10")},
		{e("event_count", int32(-1))},
		{e("event_count", 1.0)},
		{e("last_event_type", "Returned!")},
		{e("last_event_type", int32(1))},
		{e("version", int32(0))},
		{e("version", int64(1))},
		{e("mass", int32(1))},
		{e("mass", -1.0)},
		{e("history", int32(1))},
		{e("applied", "x")},
		{e("applied_floor", "x")},
		{e("erased_at", at)}, // a tombstone with a profile
	} {
		tryInsert(t, s, parse(plain(doc...)), codeValidation)
	}
	tryInsert(t, s, bson.D{e("user_id", int32(1)), e("erased_at", at)}, codeValidation)
	tryInsert(t, s, bson.D{e("user_id", int32(1)), e("version", int32(1)), e("erased_at", nil)}, codeValidation)
}

func parse(b []byte) (d bson.D) {
	if err := bson.Unmarshal(b, &d); err != nil {
		panic(err)
	}
	return d
}

// tryInsert inserts doc, expects the error code (0 for none), and cleans up.
func tryInsert(t *testing.T, s *Store, doc bson.D, code int) {
	t.Helper()
	_, err := s.users.InsertOne(ctx, doc)
	if code == 0 && err != nil || code != 0 && !hasCode(err, code) {
		t.Errorf("insert of %v: %v, want code %d", doc, err, code)
	}
	if _, err := s.users.DeleteMany(ctx, bson.D{}); err != nil {
		t.Fatal(err)
	}
}

func TestSetupIsIdempotent(t *testing.T) {
	s := openReady(t, settings(uri(t), 4))
	put(t, s, newProfile(1, 1))
	for range 2 {
		if notices, err := s.Setup(ctx); err != nil || len(notices) > 0 {
			t.Errorf("again: %v, %v", notices, err)
		}
	}
	must.OK(t, s.Check(ctx))
	if p := stored(t, s, 1); p.Version != 1 {
		t.Errorf("Setup changed the data: %+v", p)
	}
	if _, err := s.products.InsertMany(ctx, []bson.D{{{Key: fieldProduct, Value: 1}}, {{Key: fieldProduct, Value: 1}}}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("two products of one id: %v", err)
	}
}

// An older collection has no validator, or another one.
func TestSetupOfAnExistingCollection(t *testing.T) {
	s := openReady(t, settings(uri(t), 4))
	wider := s.config
	wider.Dimensions = 5
	w := open(t, wider)
	p := newProfile(1, 1)
	p.Vector = append(p.Vector, 0)
	if err := w.Swap(ctx, []*profile.Profile{p})[0]; engine.ReasonOf(err) != reasonRejected {
		t.Errorf("a profile of 5 components where the validator wants 4: %v", err)
	}
	if _, err := w.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	put(t, w, p)
}

func TestSetupWithoutValidators(t *testing.T) {
	for _, code := range []int32{59, 72, 115, 238, 303, 40415} {
		s := open(t, settings(uri(t), 4))
		failCommand(t, s, "alwaysOn", bson.M{"failCommands": bson.A{"create", "collMod"}, "errorCode": code})
		notices, err := s.Setup(ctx)
		if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "no validators") {
			t.Errorf("code %d: %q, %v, want one notice", code, notices, err)
		}
		put(t, s, newProfile(1, 1))
		must.OK(t, s.Check(ctx))
	}
}

// A server that takes a validator and drops it is found out by reading it back.
//
// Promise(away/validator): `setup` reads the validator back and says so where a server dropped it.
func TestSetupReadsTheValidatorBack(t *testing.T) {
	s := open(t, settings(standIn(t, "to drop a validator", mongotest.WithoutValidators()).URI(), 4))
	for range 2 { // created, and changed
		notices, err := s.Setup(ctx)
		if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "no validators") {
			t.Errorf("%q, %v, want one notice", notices, err)
		}
	}
}

func TestSetupMeetsObstacles(t *testing.T) {
	user := func(id int32) bson.D { return bson.D{{Key: fieldUser, Value: id}} }
	for name, obstruct := range map[string]func(*Store) error{
		"duplicates": func(s *Store) error {
			_, err := s.users.InsertMany(ctx, []bson.D{user(1), user(1)})
			return err
		},
		"an index that is not unique": func(s *Store) error {
			_, err := s.users.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: fieldUser, Value: 1}}})
			return err
		},
	} {
		s := open(t, settings(uri(t), 4))
		must.OK(t, obstruct(s))
		_, err := s.Setup(ctx)
		if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "mongodb.Setup again") {
			t.Errorf("%s: %v, want a configuration fault with its cure", name, err)
		}
		if name == "duplicates" && !strings.Contains(err.Error(), "several documents of user_embeddings have user_id 1: keep") {
			t.Errorf("%s: %v, want the user named", name, err)
		}
		if err := s.Check(ctx); engine.ReasonOf(err) != reasonNotSetUp {
			t.Errorf("%s: Check says %v", name, err)
		}
	}
}

// Promise(event/unusable-profile)
func TestCheck(t *testing.T) {
	c := settings(uri(t), 4)
	s := open(t, c)
	for _, check := range []func(context.Context) error{s.Check, s.CheckExists} {
		err := check(ctx)
		if engine.ReasonOf(err) != reasonNotSetUp || !strings.Contains(err.Error(), "mongodb.Setup") || !strings.Contains(err.Error(), c.Database) {
			t.Errorf("before Setup: %v", err)
		}
	}
	s = openReady(t, c)
	must.OK(t, s.Check(ctx))
	must.OK(t, s.CheckExists(ctx))
	must.OK(t, s.Forget(ctx, 3, 1))
	must.OK(t, s.Check(ctx))
	put(t, s, newProfile(1, 1))
	must.OK(t, s.Check(ctx))
	c.Dimensions, c.History, c.Model = 5, profile.UnitMass, "other"
	err := open(t, c).Check(ctx)
	if engine.KindOf(err) != engine.Configuration ||
		!strings.Contains(err.Error(), "set profile.Config.Dimensions=4 profile.Config.History=mass profile.Config.Model=text-embedding-3-small") {
		t.Errorf("with other settings: %v", err)
	}
	// One odd document among the newest is its user's matter.
	put(t, s, newProfile(2, 1), newProfile(4, 1))
	if _, err := s.users.UpdateOne(ctx, bson.D{{Key: fieldUser, Value: 2}}, bson.D{
		{Key: "$set", Value: bson.D{{Key: fieldUpdated, Value: time.Now()}}}, {Key: "$unset", Value: bson.D{{Key: fieldVersion, Value: ""}}},
	}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, s.Check(ctx))
}

// Where no profile tells of the settings, products do: with another length than
// theirs every event would be dead-lettered.
//
// Promise(event/configuration)
func TestCheckOfProducts(t *testing.T) {
	c := settings(uri(t), 4)
	s := openReady(t, c)
	must.OK(t, s.PutProducts(ctx, []profile.Product{{ID: 1, Vector: []float32{1, 2, 3, 4}}, {ID: 2, Vector: []float32{4, 3, 2, 1}}}, 1))
	must.OK(t, s.Check(ctx))
	c.Dimensions = 5
	err := open(t, c).Check(ctx)
	if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "set profile.Config.Dimensions=4") {
		t.Errorf("with another dimension: %v", err)
	}
	must.OK(t, s.PutProducts(ctx, []profile.Product{{ID: 3, Vector: []float32{1, 2, 3, 4, 5}}}, 1))
	must.OK(t, open(t, c).Check(ctx)) // an import is under way
}

// Events beyond the range of an int are counted on.
func TestEventCountBeyondAnInt(t *testing.T) {
	s := openReady(t, settings(uri(t), 4))
	for version, n := range []int64{math.MaxInt32, math.MaxInt32 + 1} {
		p := newProfile(1, int32(version+1))
		p.EventCount = n
		put(t, s, p)
		if got := stored(t, s, 1).EventCount; got != n {
			t.Errorf("%d events are stored as %d", n, got)
		}
	}
}
