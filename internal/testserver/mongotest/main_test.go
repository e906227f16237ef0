package mongotest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// connect returns a client that fails soon rather than late. The driver's
// Disconnect may overtake the start of a streamed hello and then waits until that
// is answered, a heartbeat interval later: so that is short.
func connect(t testing.TB, uri string, change ...func(*options.ClientOptions)) *mongo.Client {
	t.Helper()
	o := options.Client().ApplyURI(uri).SetServerSelectionTimeout(time.Minute).SetHeartbeatInterval(500 * time.Millisecond)
	for _, c := range change {
		c(o)
	}
	client, err := mongo.Connect(o)
	must.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	})
	return client
}

// users returns a collection with a unique index on user_id.
func users(t testing.TB, client *mongo.Client) *mongo.Collection {
	t.Helper()
	c := client.Database("shop").Collection("users")
	unique := mongo.IndexModel{Keys: bson.D{{Key: "user_id", Value: 1}}, Options: options.Index().SetUnique(true)}
	if _, err := c.Indexes().CreateOne(t.Context(), unique); err != nil {
		t.Fatal(err)
	}
	return c
}

// fresh returns a server, and a collection on it.
func fresh(t *testing.T, change ...func(*options.ClientOptions)) (*Server, *mongo.Collection) {
	t.Helper()
	s := Start(t)
	return s, users(t, connect(t, s.URI(), change...))
}

func insert(t testing.TB, c *mongo.Collection, docs ...any) {
	t.Helper()
	if _, err := c.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

func inject(t testing.TB, c *Controls, f Fault) int64 {
	t.Helper()
	id, err := c.Inject(f)
	must.OK(t, err)
	return id
}

// stored returns field n of the document that matches filter, -1 where there is
// none.
func stored(t testing.TB, c *mongo.Collection, filter bson.D) int64 {
	t.Helper()
	raw, err := c.FindOne(t.Context(), filter).Raw()
	// After its connections were cut, the driver may empty its pool more than once.
	for range 100 {
		if err == nil || errors.Is(err, mongo.ErrNoDocuments) {
			break
		}
		time.Sleep(10 * time.Millisecond)
		raw, err = c.FindOne(t.Context(), filter).Raw()
	}
	if errors.Is(err, mongo.ErrNoDocuments) {
		return -1
	}
	must.OK(t, err)
	return raw.Lookup("n").AsInt64()
}

// counted returns how many documents match.
func counted(t testing.TB, c *mongo.Collection, filter bson.D) int {
	t.Helper()
	cursor, err := c.Find(t.Context(), filter)
	must.OK(t, err)
	var all []bson.Raw
	must.OK(t, cursor.All(t.Context(), &all))
	return len(all)
}

// codeOf returns the code of a command's error, and whether it carries label.
func codeOf(t testing.TB, err error, label string) (int32, bool) {
	t.Helper()
	c, ok := errors.AsType[mongo.CommandError](err)
	if !ok {
		t.Fatalf("%v (%T) is no command error", err, err)
	}
	return c.Code, c.HasErrorLabel(label)
}

func one(key string, v any) bson.D { return bson.D{{Key: key, Value: v}} }
