package mongotest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/testserver/must"
)

// FailCommand sets the failpoint failCommand of the server at uri until the
// test's end. The server is a stand-in, or a mongod that was started with
// --setParameter enableTestCommands=1. mode and data are MongoDB's:
//
//	mongotest.FailCommand(t, uri, bson.M{"times": 2}, bson.M{
//		"failCommands": bson.A{"insert", "update"}, "errorCode": 91,
//	})
//
// A server has one such failpoint: setting it again replaces it.
//
// Source: github.com/mongodb/mongo/wiki/The-failCommand-fail-point.
func FailCommand(t testing.TB, uri string, mode any, data bson.M) {
	t.Helper()
	err := SetFailCommand(context.Background(), uri, mode, data)
	if refusal, ok := errors.AsType[mongo.CommandError](err); ok && refusal.Code == codeCommandNotFound {
		t.Skip("MONGODB_TEST_URI names a server that has no failpoints")
	}
	must.OK(t, err)
	t.Cleanup(func() {
		if err := SetFailCommand(context.Background(), uri, "off", nil); err != nil {
			t.Errorf("turn the failpoint off: %v", err)
		}
	})
}

// SetFailCommand sets the failpoint until it is set to mode "off".
func SetFailCommand(ctx context.Context, uri string, mode any, data bson.M) error {
	client, err := dial(uri, "failpoint")
	if err != nil {
		return err
	}
	command := bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode}, {Key: "data", Value: data}}
	if data == nil {
		command = command[:2]
	}
	return errors.Join(client.Database("admin").RunCommand(ctx, command).Err(), client.Disconnect(ctx))
}

// dial returns a client for a few commands. It polls the server's state: a
// streamed hello would keep Disconnect waiting.
func dial(uri, appName string) (*mongo.Client, error) {
	return mongo.Connect(options.Client().SetServerMonitoringMode(options.ServerMonitoringModePoll).
		SetTimeout(10 * time.Second).ApplyURI(uri).SetAppName(appName))
}

// failCommandFields are the data of failCommand that this server knows.
var failCommandFields = []string{
	"failCommands", "appName", "namespace", "blockConnection", "blockTimeMS", "closeConnection", "errorCode", "errorLabels", "writeConcernError",
}

// configureFailPoint sets the failpoint failCommand. No fault touches it.
func configureFailPoint(r *request) error {
	if name, _ := r.field(r.name).StringValueOK(); name != "failCommand" || r.db != "admin" {
		return fail(codeBadValue, "mongotest: only the failpoint failCommand is supported, in the database admin")
	}
	mode := r.field("mode")
	if on, _ := mode.StringValueOK(); on == "off" {
		r.store.faults.remove(failCommandID)
		return nil
	} else if times, _ := mode.DocumentOK(); on != "alwaysOn" && len(times) <= len(emptyDocument) {
		return fail(codeBadValue, "mongotest: mode must be alwaysOn, off, {times: n} or {skip: n}, got %s", mode)
	}
	data, err := r.optional("data")
	if err != nil {
		return err
	}
	for e := range fields(data) {
		if !slices.Contains(failCommandFields, e.Key()) {
			return fail(codeBadValue, "mongotest: failCommand's field '%s' is not supported", e.Key())
		}
	}
	var fault Fault
	if err := bson.Unmarshal(slices.Clone(data), &fault); err != nil {
		return fail(codeFailedToParse, "mongotest: %v", err)
	}
	if counts, ok := mode.DocumentOK(); ok {
		if err := bson.Unmarshal(counts, &fault); err != nil || (fault.Skip == 0) == (fault.Times == 0) {
			return fail(codeBadValue, "mongotest: mode must be alwaysOn, off, {times: n} or {skip: n}, got %s", mode)
		}
	}
	return r.store.faults.set(failCommandID, fault)
}
