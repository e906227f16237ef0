package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/version"
	"keyfold/service/profile/embedding"

	"keyfold/cmd/keyfold/app"
)

// call runs keyfold with these variables beside the process's own.
func call(t *testing.T, env map[string]string, args ...string) (code int, out, errs string) {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value)
	}
	return keyfold(t.Context(), "", args...)
}

// `config check --connect` has a line for each server, and fails if one cannot be used.
func TestConfigCheckConnects(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"data":[{"index":0,"embedding":[1,0]}],"model":"m","usage":{"prompt_tokens":1}}`))
	}))
	defer api.Close()
	env := map[string]string{
		"RABBITMQ_DSN": "amqp://guest:s3cret@127.0.0.1:1/", "MONGODB_URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50",
		"DATABASE_URL": "sqlite://" + filepath.Join(t.TempDir(), "outbox.db"), "REDIS_URL": "redis://:s3cret@127.0.0.1:1",
		"EMBEDDER": "openai", "OPENAI_API_KEY": "s3cret", "OPENAI_BASE_URL": api.URL + "/v1", "EMBEDDING_DIMENSIONS": "2",
	}
	code, out, errs := call(t, env, "config", "check", "--connect")
	for _, want := range []string{
		"✗ RabbitMQ       amqp://guest:***@127.0.0.1:1/: RabbitMQ does not listen at its address; check that it runs, and that RABBITMQ_DSN has its host and port",
		"✗ MongoDB        mongodb://127.0.0.1:1/", "✗ SQL            sqlite://", "keyfold setup",
		"✗ Redis          redis://:***@127.0.0.1:1: Redis does not listen at its address; check that it runs, and that REDIS_URL has its host and port", "✓ embedding API  " + api.URL + "/v1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if code != cli.ExitFailure || strings.Count(out, "\n") != 5 || errs != "keyfold: 4 servers cannot be used\n" || strings.Contains(out, "s3cret") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}

	env["NOTIFY_DATABASE_URL"] = "postgres://u:s3cret@127.0.0.1:1/d"
	_, out, _ = call(t, env, "config", "check", "--connect")
	if !strings.Contains(out, "✗ PostgreSQL     postgres://u:***@127.0.0.1:1/d: PostgreSQL does not listen at its address; check that it runs, and that NOTIFY_DATABASE_URL has its host and port") || strings.Contains(out, "s3cret") {
		t.Errorf("with notifications:\n%s", out)
	}

	env = map[string]string{"EMBEDDER": "openai", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
	_, out, _ = call(t, env, "config", "check", "--connect")
	if !strings.Contains(out, "✗ embedding API  http://127.0.0.1:1/v1: the embedding API does not listen at its address; check that it runs, and that OPENAI_BASE_URL has its host and port") {
		t.Errorf("without an embedding API:\n%s", out)
	}

	env = map[string]string{"DATABASE_URL": "", "REDIS_URL": "", "EMBEDDER": "hash", "NOTIFY_DATABASE_URL": ""}
	code, out, _ = call(t, env, "config", "check", "--connect", "-o", "json")
	var report struct {
		Servers []struct {
			Server, Address, Error string
			Used                   bool
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != cli.ExitFailure || len(report.Servers) != 5 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	for i, s := range report.Servers {
		if used := i < 2; s.Used != used || (s.Address != "") != used || (s.Error != "") != used {
			t.Errorf("%+v", s)
		}
	}
}

// `config show` has every variable of the page, what is used, and no secret.
func TestConfigShow(t *testing.T) {
	env := map[string]string{
		"RABBITMQ_DSN": "amqp://u:s3cret@h/", "MONGODB_URI": "mongodb://u:s3cret@h/", "DATABASE_URL": "mysql://u:s3cret@h/d",
		"REDIS_URL": "redis://u:s3cret@h/", "OPENAI_API_KEY": "s3cret", "HTTP_TOKENS": "s3cret", "WORKER_PREFETCH": "60000",
		"OPENAI_BASE_URL": "https://u:s3cret@h/v1",
	}
	code, out, errs := call(t, env, "config", "show", "--memory-limit=64M")
	for _, want := range []string{
		"WORKER_PREFETCH             environment                4096\n", "WORKER_MEMORY_LIMIT         --memory-limit             64M\n",
		"EMBEDDING_MODEL             default                    text-embedding-3-small\n", "HTTP_RATE                   default                    5000/s\n",
		"DATABASE_URL                environment                mysql://u:***@h/d\n", "HTTP_TOKENS                 environment                ***\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if code != 0 || strings.Contains(out+errs, "s3cret") || !strings.Contains(errs, `"variable":"WORKER_PREFETCH","hint":"4096 is used instead of 60000`) {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	_, out, _ = call(t, nil, "config", "show", "-o", "json")
	var all []settings.Setting
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) < 40 {
		t.Errorf("%v: %d settings in %s", err, len(all), out)
	}
}

// Every command warns of a variable that looks like a setting.
func TestUnknownVariablesAreLogged(t *testing.T) {
	_, _, errs := call(t, map[string]string{"EMBEDDING_WINDOW": "3"}, "setup", "--print=sqlite")
	if !strings.Contains(errs, `"level":"WARN","msg":"unknown setting","variable":"EMBEDDING_WINDOW","hint":"did you mean EMBEDDING_BATCH_WINDOW?"`) {
		t.Errorf("%s", errs)
	}
}

// `help settings` shows every setting.
func TestHelpSettings(t *testing.T) {
	_, help, _ := call(t, nil, "help", "settings")
	if !strings.HasPrefix(help, "Every setting is a flag and an environment variable") {
		t.Errorf("begins with %.80q", help)
	}
	_, list, _ := call(t, nil, "config", "show")
	for row := range strings.Lines(list) {
		if name, _, _ := strings.Cut(row, " "); !strings.Contains(help, "$"+name+")") {
			t.Errorf("%s is missing in\n%s", name, help)
		}
	}
}

// The broker shows which build a worker is.
func TestConnectionsHaveTheVersion(t *testing.T) {
	if got := workerConfig(&app.App{}).Identity.Version; got != version.Read().Version || got == "" {
		t.Errorf("got %q, want %q", got, version.Read().Version)
	}
}

// A worker says at its start that Redis is away, and goes on.
func TestRedisAwayAtStart(t *testing.T) {
	var log strings.Builder
	a := &app.App{Ctx: t.Context(), Log: slog.New(slog.NewTextHandler(&log, nil))}
	s := embedding.Settings{Embedder: embedding.EmbedderOpenAI, Key: "k", Redis: "redis://:s3cret@127.0.0.1:1"}
	c, err := s.Config(8, profile.Learned{})
	must.OK(t, err)
	a.Config.Processor.Dimensions = 8
	must.OK(t, a.WithEmbedding(c, 0, func(e *embedding.Embedding) error { warnOfRedis(a, e); return nil }))
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "REDIS_URL") || strings.Count(text, "\n") != 1 || strings.Contains(text, "s3cret") {
		t.Errorf("%s", text)
	}
}

// Beside the address of a server that is none of MongoDB's own stands what it does not promise.
func TestConfigCheckOfAKindredServer(t *testing.T) {
	t.Parallel()
	broker, store := rabbittest.Shared(t), mongotest.Start(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), history: profile.Mass}
	s.setUp(t)
	line := func() string {
		t.Helper()
		_, out, _ := s.run(t, "", "config", "check", "--connect")
		_, line, _ := strings.Cut(out, "✓ MongoDB ")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	if own := line(); !strings.HasSuffix(own, "replicaSet=rs0") {
		t.Errorf("of MongoDB's own: %q", own)
	}
	_, err := store.Inject(mongotest.Fault{Commands: []string{"buildInfo"}, ErrorCode: 59})
	must.OK(t, err)
	if kindred := line(); !strings.Contains(kindred, "is no mongod") || !strings.Contains(kindred, "synchronous_commit") {
		t.Errorf("of another: %q", kindred)
	}
}
