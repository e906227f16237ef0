package main

import (
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/sample"
)

// newSharded is newStack on a mongos, sharded.
func newSharded(t *testing.T) (*mongotest.Server, *stack) {
	t.Helper()
	t.Parallel()
	broker := rabbittest.Shared(t)
	server := mongotest.Start(t, mongotest.WithMongos())
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: server.URI(), products: sample.Products(), history: profile.Mass}
	for range 2 {
		code, out, errs := s.run(t, "", "setup", "--shard", "-o", "json")
		if key := object(t, out)["mongodb"].(map[string]any)["shard_key"]; code != 0 || key != "{user_id: hashed}" {
			t.Errorf("exit code %d, shard key %v: %s", code, key, errs)
		}
	}
	s.setUp(t) // without the flag it stays sharded
	return server, s
}

// What keyfold does with a sharded cluster, from setup to the erasure of a user: no operation on one
// user goes to every shard.
//
// Promise(mongodb/sharding)
func TestSetupShards(t *testing.T) {
	server, stack := newSharded(t)
	if code, out, errs := stack.run(t, "", "setup", "--shard"); code != 0 ||
		!strings.Contains(out, "user_embeddings is sharded by {user_id: hashed}; product_embeddings stays as it is") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	s := stack.with(t, "sqlite://"+filepath.Join(t.TempDir(), "outbox.db"))
	s.ingest(t).accepted(sampleOf(t, 200)...)
	s.allSent(t)
	for range 2 { // they meet over versions
		s.work(t, quick).ready()
	}
	o := s.expect(t, s.bodies(t))
	s.settled(t, o)
	spoil(t, s.open(t), 1)
	if r := s.rebuild(t, "--all"); r.Replaced != 1 {
		t.Errorf("rebuild: %+v", r)
	}
	if err := o.CheckAll(allProfiles(t, s.open(t))); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"user forget 2 --yes", "user show 1 --near 3", "user export"} {
		s.must(t, strings.Fields(command)...)
	}
	stats, err := server.Stats()
	must.OK(t, err)
	for shape := range stats.Broadcasts {
		switch shape {
		case "find user_embeddings by ()", "find user_embeddings by (erased_at)": // at the start
		case "find user_embeddings by (user_id)": // pages of export, and of this test
		default:
			t.Errorf("%s goes to every shard", shape)
		}
	}
}

func TestSetupShardsNoReplicaSet(t *testing.T) {
	s := newStack(t)
	code, out, errs := s.run(t, "", "setup", "--shard", "-o", "json")
	if o := object(t, out); code != cli.ExitFailure || o["mongodb"] != nil || o["rabbitmq"] == nil || !strings.Contains(errs, "no mongos") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
