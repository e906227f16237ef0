package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/mongotest"
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
	if o := object(t, out); code != cli.ExitFailure || o["sql"] != nil || o["rabbitmq"] == nil || !strings.Contains(errs, "DATABASE_URL") {
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
	if o := object(t, out); code != cli.ExitFailure || o["imported"] != 1.0 || !strings.Contains(errs, "line 2") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, _, errs = s.run(t, `{"product_id":9002,"embedding":[1,2]}`, "products", "import", "-")
	if code != cli.ExitFailure || !strings.Contains(errs, "EMBEDDING_DIMENSIONS") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A backfill whose broker is away says so and ends.
func TestBackfillWithoutBroker(t *testing.T) {
	s := newStack(t)
	shop := s.with(t, "sqlite://"+t.TempDir()+"/outbox.db")
	shop.service(t, "ingest", "--http-addr=127.0.0.1:0").ready().accepted(event(17, profile.ProductView, 1, time.Now().Add(-time.Hour), "one"))
	shop.more = []string{"--rabbitmq-dsn=amqp://guest:guest@127.0.0.1:1/"}
	for args, want := range map[string]string{
		"--from=2026-01-01T00:00:00Z --until=2026-01-02T00:00:00Z": "0 rows published: 0 of 1 unsent row occurred since 2026-01-01T00:00:00Z and occurred before 2026-01-02T00:00:00Z\n",
		"--user=3 --type=search":                                   "0 rows published: 0 of 1 unsent row are of user 3 and are of the type search\n",
	} {
		if out := shop.must(t, append([]string{"backfill"}, strings.Fields(args)...)...); out != want {
			t.Errorf("backfill %s prints %q, want %q", args, out, want)
		}
	}
	if code, out, errs := shop.run(t, "backfill"); code != cli.ExitFailure || out != "" || !strings.Contains(errs, "RABBITMQ_DSN") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if out := shop.must(t, "backfill", "--dry-run"); !strings.HasPrefix(out, "1 row would be published") {
		t.Errorf("%s", out)
	}
}

// An export of a database that has no profiles' collection is no success: its name may
// be mistyped.
func TestExportOfAnotherDatabase(t *testing.T) {
	s := &stack{dsn: "amqp://127.0.0.1:1", mongo: mongotest.Start(t).URI(), history: "mass"}
	file := filepath.Join(t.TempDir(), "profiles.ndjson")
	code, _, errs := s.run(t, "", "user", "export", file, "--mongodb-database=nosuch")
	if _, err := os.Stat(file); code == 0 || !strings.Contains(errs, "the database nosuch has no collection") || err == nil {
		t.Errorf("exit code %d, file %v: %s", code, err, errs)
	}
}

func TestSetupNamesTheRetryQueues(t *testing.T) {
	var out strings.Builder
	done := setUp{RabbitMQ: &queuesSetUp{Exchange: "x", Queue: "q", DeadLetters: "d", Retries: []string{"q.retry.7000", "q.retry.14000"}}}
	done.print(&cli.Text{W: &out}, false)
	if want := "retry queues q.retry.7000, q.retry.14000; those of an earlier WORKER_RETRY_DELAY stay"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in:\n%s", want, &out)
	}
}
