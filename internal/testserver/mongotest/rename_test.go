package mongotest

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/testserver/must"
)

// A renamed collection has its documents and indexes, also after the server was started again;
// a name that is taken, or that is of no collection, is refused as MongoDB does.
func TestRenameCollection(t *testing.T) {
	data := filepath.Join(t.TempDir(), "journal")
	s := Start(t, WithData(data))
	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
	must.OK(t, err)
	c := users(t, client)
	insert(t, c, one("user_id", int32(1)))
	db := c.Database()
	rename := func(from, to string) error {
		return db.Client().Database("admin").RunCommand(t.Context(), bson.D{
			{Key: "renameCollection", Value: db.Name() + "." + from}, {Key: "to", Value: db.Name() + "." + to},
		}).Err()
	}
	must.OK(t, rename(c.Name(), "renamed"))
	if err := rename(c.Name(), "other"); !hasCode(err, codeNamespaceNotFound) {
		t.Errorf("a collection that is gone: %v", err)
	}
	insert(t, c, one("user_id", int32(2)))
	if err := rename(c.Name(), "renamed"); !hasCode(err, codeNamespaceExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	must.OK(t, errors.Join(client.Disconnect(t.Context()), s.Close()))
	again := connect(t, Start(t, WithData(data)).URI()).Database(db.Name()).Collection("renamed")
	var all []bson.Raw
	if found, err := again.Find(t.Context(), bson.D{}); err != nil || found.All(t.Context(), &all) != nil || len(all) != 1 {
		t.Errorf("%d documents, %v", len(all), err)
	}
	if _, err := again.InsertOne(t.Context(), one("user_id", int32(1))); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("the unique index: %v", err)
	}
}

func hasCode(err error, code int) bool {
	return slices.Contains(mongo.ErrorCodes(err), code)
}
