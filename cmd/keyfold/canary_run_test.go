package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	embedtest "keyfold/bench/testserver/embeddings"
	mariatest "keyfold/bench/testserver/mariadb"
	mongotest "keyfold/bench/testserver/mongodb"
	rabbittest "keyfold/bench/testserver/rabbitmq"
	redistest "keyfold/bench/testserver/redis"
	"keyfold/cmd/cli"
	"keyfold/source/vector/openai"
)

// usualSecrets are the settings that hold a secret, each with the canary in the secret's usual
// place, and with HOST where its server is.
var usualSecrets = map[string]string{
	"RABBITMQ_DSN":            "amqp://keyfold:" + canary + "@HOST/",
	"RABBITMQ_MANAGEMENT_URL": "http://keyfold:" + canary + "@HOST",
	"MONGODB_URI":             "mongodb://keyfold:" + canary + "@HOST/?serverSelectionTimeoutMS=50",
	"DATABASE_URL":            "mysql://keyfold:" + canary + "@HOST/shop",
	"REDIS_URL":               "redis://:" + canary + "@HOST",
	"OPENAI_BASE_URL":         "http://keyfold:" + canary + "@HOST/v1",
	"OPENAI_API_KEY":          canary + "0f4llth1ngs",
	"HTTP_TOKENS":             canary + "0f4llth1ngs",
	"NOTIFY_DATABASE_URL":     "postgres://keyfold:" + canary + "@HOST/notify",
	"NOTIFY_ADMIN_URL":        "postgres://owner:" + canary + "@HOST/notify",
	"NOTIFY_REDIS_URL":        "redis://:" + canary + "@HOST",
}

// Whatever becomes of the servers, no command prints a secret, at any level, in its log, its
// answers or its metrics.
func TestNoSecretIsPrinted(t *testing.T) {
	kinds, _ := secretSettings(t)
	for name, kind := range kinds {
		if _, usual := usualSecrets[name]; usual == (kind == secretFile) {
			t.Errorf("%s holds a secret (%s), and is not among those of this test", name, kind)
		}
	}
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte(canary+"0f4llth1ngs\n"), 0o600))
	away := func(string) string { return "127.0.0.1:1" }
	t.Run("servers are away", func(t *testing.T) { quietInAll(t, atHosts(away)) })
	t.Run("secrets are in files", func(t *testing.T) {
		quietInAll(t, with(atHosts(away), map[string]string{"OPENAI_API_KEY": "", "HTTP_TOKENS": "", "OPENAI_API_KEY_FILE": file, "HTTP_TOKEN_FILE": file}))
	})
	t.Run("servers refuse", func(t *testing.T) { quietInAll(t, refusing(t)) })
}

// atHosts returns the settings with the hosts of their servers.
func atHosts(host func(variable string) string) map[string]string {
	env := map[string]string{
		"EMBEDDER": "openai", "ADMIN_ADDR": "127.0.0.1:0", "HTTP_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug", "EMBEDDING_DIMENSIONS": "8",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=" + canary + "0f4llth1ngs",
		"WORKER_SHUTDOWN_TIMEOUT": "2", "STATUS_PROCESSES": "127.0.0.1:1",
	}
	for variable, usual := range usualSecrets {
		env[variable] = strings.ReplaceAll(usual, "HOST", host(variable))
	}
	return env
}

func with(env, more map[string]string) map[string]string {
	for name, value := range more {
		env[name] = value
	}
	return env
}

// refusing are real servers that other passwords open.
func refusing(t *testing.T) map[string]string {
	t.Helper()
	broker, maria := rabbittest.Shared(t), mariatest.Start(t)
	redis := redistest.Start(t, "--requirepass", "another")
	api := embedtest.Start(t, embedtest.Config{Dimensions: 8, Model: openai.DefaultModel, Key: "another"})
	store := mongotest.Start(t)
	hosts := map[string]string{
		"RABBITMQ_DSN": broker.Address(), "RABBITMQ_MANAGEMENT_URL": strings.TrimPrefix(broker.ManagementURL(), "http://"),
		"MONGODB_URI": store.Addr(), "DATABASE_URL": maria.Address(), "REDIS_URL": redis.Address(), "NOTIFY_REDIS_URL": redis.Address(),
		"NOTIFY_DATABASE_URL": "127.0.0.1:1", "NOTIFY_ADMIN_URL": "127.0.0.1:1",
	}
	return with(atHosts(func(variable string) string { return hosts[variable] }), map[string]string{"OPENAI_BASE_URL": api.URL()})
}

// quietInAll runs every command with these variables. A service runs until it ends by itself,
// or has answered on its admin endpoint.
func quietInAll(t *testing.T, env map[string]string) {
	for name, value := range env {
		t.Setenv(name, value)
	}
	parser, err := commandLine.Parser(&commands{}, cli.Streams{}, func(int) {})
	must(t, err)
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, n := range parser.Model.Leaves(false) {
		if plain(n) {
			continue
		}
		command := strings.TrimPrefix(strings.SplitN(n.Path(), " <", 2)[0], "keyfold ")
		command = strings.SplitN(command, " [", 2)[0]
		args := append(strings.Fields(command), strings.Fields(arguments[command])...)
		if command == "config check" {
			args = append(args, "--connect")
		}
		if slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == "yes" }) {
			args = append(args, "--yes")
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			quiet(t, args)
		})
	}
	all.Wait()
}

// quiet runs one command.
func quiet(t *testing.T, args []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, log, ended := &lockedBuffer{}, &lockedBuffer{}, make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx, args, cli.Streams{Stdin: strings.NewReader(""), Stdout: out, Stderr: log})
	}()
	d := &daemon{t: t, log: log}
	var answers bytes.Buffer
	asked := false
	for !asked {
		select {
		case <-ended:
			asked = true
		case <-time.After(10 * time.Millisecond):
			if code, ready := d.get("/readyz"); code != 0 {
				_, page := d.get("/metrics")
				_, none := d.get("/nothing?key=x")
				fmt.Fprintln(&answers, ready, page, none)
				asked = true
			}
		}
	}
	stop()
	<-ended
	if out.String()+log.String() == "" {
		t.Errorf("%v printed nothing", args)
	}
	noCanary(t, fmt.Sprint(args), out.String()+log.String()+answers.String())
}
