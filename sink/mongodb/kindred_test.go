package mongodb

import (
	"errors"
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

// A server that sorts all its documents for the newest few keeps no worker out.
//
// Promise(away/kindred-servers)
func TestCheckOfASlowServer(t *testing.T) {
	server, s := startStandIn(t, "a command that is answered late")
	put(t, s, newProfile(1, 1))
	inject(t, server, mongotest.Fault{Commands: []string{"find"}, BlockConnection: true, BlockTimeMS: time.Hour.Milliseconds()})
	must.OK(t, s.Check(ctx))
}

// A server that refuses the look is told.
func TestCheckOfARefusingServer(t *testing.T) {
	server, s := startStandIn(t, "a command that is refused")
	inject(t, server, mongotest.Fault{Commands: []string{"find"}, ErrorCode: codeUnauthorized})
	if err := s.Check(ctx); engine.ReasonOf(err) != reasonRights {
		t.Errorf("%v", err)
	}
}

// Whose promise durability is, is said of servers that are not MongoDB's own, at setup too.
//
// Promise(away/kindred-servers): `setup` and `config check --connect` say whose promise durability is
// on a server that speaks MongoDB's protocol and is not mongod.
func TestDurabilityOfKindredServers(t *testing.T) {
	server, s := startStandIn(t, "another server's answer to buildInfo")
	if notice, err := s.Durability(ctx); err != nil || notice != "" {
		t.Errorf("of MongoDB's own: %q, %v", notice, err)
	}
	inject(t, server, mongotest.Fault{Commands: []string{"buildInfo"}, ErrorCode: codeCommandNotFound})
	notices, err := s.Setup(ctx)
	if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "synchronous_commit") {
		t.Errorf("of a server without the command: %q, %v", notices, err)
	}
	answer, err := bson.Marshal(bson.D{{Key: "version", Value: "7.0.77"}, {Key: "ferretdb", Value: bson.D{}}})
	must.OK(t, err)
	if kind := kindOfServer(answer); !strings.Contains(kind, "FerretDB") {
		t.Errorf("FerretDB is %q", kind)
	}
}

// A server that has no retryable writes names the option that it needs, and no outage.
//
// Promise(away/kindred-servers)
func TestServersWithoutRetryableWrites(t *testing.T) {
	server, s := startStandIn(t, "a command that is refused")
	inject(t, server, mongotest.Fault{Commands: []string{"update", "insert"}, ErrorCode: codeNoRetryableWrites})
	errs := s.Swap(ctx, []*profile.Profile{newProfile(1, 1)})
	for _, err := range append(errs, s.Probe(ctx)) {
		if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "retryWrites=false") {
			t.Errorf("%v", err)
		}
	}
}

// The victim of a deadlock is read and folded again, whatever code the server has for it.
//
// Promise(away/kindred-servers)
func TestADeadlockIsAConflict(t *testing.T) {
	err := markStatement(newProfile(1, 1), mongo.WriteError{Code: 1, Message: "deadlock detected"})
	if !errors.Is(err, engine.ErrConflict) {
		t.Errorf("%v", err)
	}
}

// A replica set's name that no server has is the address's fault.
func TestReplicaSetOfAServerAlone(t *testing.T) {
	c := settings(standIn(t, "a name of a replica set").URI(), 4)
	quick(&c)
	named, _, _ := strings.Cut(c.URI, "?")
	c.URI = named + "?replicaSet=elsewhere"
	_, err := Open(ctx, c)
	if err == nil || !strings.Contains(err.Error(), "leave replicaSet out") {
		t.Errorf("%v", err)
	}
}
