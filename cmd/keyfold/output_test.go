package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
)

// logged returns what the log does not have.
func (d *daemon) logged(texts ...string) error {
	for _, text := range texts {
		if !strings.Contains(d.log.String(), text) {
			return fmt.Errorf("%s is missing in:\n%s", text, d.log)
		}
	}
	return nil
}

// object reads the one JSON object that a command printed.
func object(t *testing.T, text string) (o map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("not one JSON object: %v: %q", err, text)
	}
	return o
}

// With -o json setup prints one object, also where a server is away.
func TestSetupPrintsJSON(t *testing.T) {
	s := newStack(t)
	code, out, errs := s.run(t, "", "setup", "-o", "json", "--database-url=sqlite://"+t.TempDir()+"/outbox.db")
	if code != 0 {
		t.Fatal(errs)
	}
	for name, want := range map[string]string{
		"rabbitmq": "user_embedding_updates.retry.5000", "mongodb": "product_embeddings", "sql": "user_interactions",
	} {
		if part := fmt.Sprint(object(t, out)[name]); !strings.Contains(part, want) {
			t.Errorf("%s is %s", name, part)
		}
	}
	code, out, errs = s.run(t, "", "setup", "-o", "json", "--database-url=mysql://shop:s3cret@127.0.0.1:1/shop")
	if o := object(t, out); code != exitFailure || o["sql"] != nil || o["rabbitmq"] == nil || !strings.Contains(errs, "DATABASE_URL") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = s.run(t, "", "setup", "-o", "json", "--print=sqlite")
	if sql := fmt.Sprint(object(t, out)["sql"]); code != 0 || !strings.Contains(sql, "CREATE TABLE") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// With -o json an import prints one object, also where it was stopped: it says
// what was stored.
func TestImportPrintsJSON(t *testing.T) {
	s := newStack(t)
	good := `{"product_id":9001,"product_name":"Mug","category":"Home"}` + "\n"
	code, out, errs := s.run(t, good, "products", "import", "-", "--embed", "-o", "json")
	if o := object(t, out); code != 0 || o["imported"] != 1.0 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = s.run(t, good+"broken\n", "products", "import", "-", "--embed", "-o", "json")
	if o := object(t, out); code != exitFailure || o["imported"] != 1.0 || !strings.Contains(errs, "line 2") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, _, errs = s.run(t, `{"product_id":9002,"embedding":[1,2]}`, "products", "import", "-")
	if code != exitFailure || !strings.Contains(errs, "EMBEDDING_DIMENSIONS") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// Forgetting says what it leaves, and how that is removed.
func TestForgetSaysWhatStays(t *testing.T) {
	s := newStack(t)
	s.publish(t, event(17, engine.ProductView, 1, time.Now().Add(-time.Hour), "one"))
	s.settledBy(t)
	const remove = "DELETE FROM user_interactions WHERE user_id = 17;"
	code, out, errs := s.run(t, "", "user", "forget", "17", "--database-url=sqlite://"+t.TempDir()+"/outbox.db")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, text := range []string{"user 17 is erased", remove, "DATABASE_URL", "keyfold dlq discard --user 17 --yes", "queued messages"} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is missing in:\n%s", text, out)
		}
	}
	if strings.Contains(out, "had no profile") {
		t.Errorf("%s", out)
	}
	_, out, _ = s.run(t, "", "user", "forget", "17", "-o", "json")
	o := object(t, out)
	left, _ := o["not_erased"].(map[string]any)
	if o["user_id"] != 17.0 || o["erased"] != true || o["had_profile"] != false || left["stored_interactions"] != remove || o["erased_before"] == nil {
		t.Errorf("%s", out)
	}
	if _, out, _ = s.run(t, "", "user", "forget", "17"); !strings.Contains(out, "user 17 was erased before, 20") || strings.Contains(out, "had no profile") {
		t.Errorf("the second time: %s", out)
	}
	if _, out, _ = s.run(t, "", "user", "forget", "18"); !strings.Contains(out, "user 18 had no profile") {
		t.Errorf("a user without a profile: %s", out)
	}
	_, err := s.collection(t).InsertOne(t.Context(), bson.D{{Key: "user_id", Value: int32(19)}, {Key: "embedding", Value: "text"}},
		options.InsertOne().SetBypassDocumentValidation(true))
	must(t, err)
	if code, out, errs := s.run(t, "", "user", "forget", "19"); code != 0 || strings.Contains(out, "had no profile") {
		t.Errorf("a profile that cannot be read: %s%s", out, errs)
	}
	if _, help, _ := s.run(t, "", "user", "forget", "17", "--help"); !strings.Contains(help, remove) || !strings.Contains(help, "dlq discard") {
		t.Errorf("%s", help)
	}
}

// A backfill whose broker is away says so and ends.
func TestBackfillWithoutBroker(t *testing.T) {
	s := newStack(t)
	shop := s.with(t, "sqlite://"+t.TempDir()+"/outbox.db")
	shop.service(t, "ingest", "--http-addr=127.0.0.1:0").ready().accepted(event(17, engine.ProductView, 1, time.Now().Add(-time.Hour), "one"))
	shop.more = []string{"--rabbitmq-dsn=amqp://guest:guest@127.0.0.1:1/"}
	if code, out, errs := shop.run(t, "backfill"); code != exitFailure || out != "" || !strings.Contains(errs, "RABBITMQ_DSN") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if out := shop.must(t, "backfill", "--dry-run"); !strings.HasPrefix(out, "1 would be published") {
		t.Errorf("%s", out)
	}
}
