package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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
	"keyfold/cmd/settings"
	"keyfold/source/vector/openai"
)

// canary stands in every secret. No output of a command, no log, no metric and no answer may
// have it.
const canary = "C4NARY0f4llth1ngs"

// secretSettings are the variables that may hold a secret, each as one that has it in its
// usual place, with HOST where its server is.
var secretSettings = map[string]string{
	"RABBITMQ_DSN":            "amqp://keyfold:" + canary + "@HOST/",
	"RABBITMQ_MANAGEMENT_URL": "http://keyfold:" + canary + "@HOST",
	"MONGODB_URI":             "mongodb://keyfold:" + canary + "@HOST/?serverSelectionTimeoutMS=50",
	"DATABASE_URL":            "mysql://keyfold:" + canary + "@HOST/shop",
	"REDIS_URL":               "redis://:" + canary + "@HOST",
	"OPENAI_BASE_URL":         "http://keyfold:" + canary + "@HOST/v1",
	"OPENAI_API_KEY":          canary,
	"HTTP_TOKENS":             canary,
	"NOTIFY_DATABASE_URL":     "postgres://keyfold:" + canary + "@HOST/notify",
	"NOTIFY_ADMIN_URL":        "postgres://owner:" + canary + "@HOST/notify",
	"NOTIFY_REDIS_URL":        "redis://:" + canary + "@HOST",
}

// secretFiles are the variables of files with secrets.
var secretFiles = []string{"OPENAI_API_KEY_FILE", "HTTP_TOKEN_FILE"}

var (
	soundsSecret = regexp.MustCompile(`DSN|URL|URI|KEY|TOKEN|PASS|SECRET|CREDENTIAL`)
	noSecret     = []string{"HTTP_TLS_KEY", "NOTIFY_KEY_RETENTION"} // a file's name; a length of time
)

// A setting whose name sounds like a secret is one of those that are tested, so that a new one
// is too.
func TestEverySecretHasACanary(t *testing.T) {
	for _, s := range settings.List(parsed(t, &commands{}, "version")) {
		_, has := secretSettings[s.Variable]
		if known := has || slices.Contains(secretFiles, s.Variable) || slices.Contains(noSecret, s.Variable); soundsSecret.MatchString(s.Variable) != known {
			t.Errorf("%s: its name sounds like a secret: %t; tested, or named as none: %t", s.Variable, !known, known)
		}
	}
}

// Whatever is wrong with servers and settings, no command prints a secret, at any level.
func TestNoSecretIsPrinted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte(canary+"\n"), 0o600))
	away := func(string) string { return "127.0.0.1:1" }
	t.Run("servers are away", func(t *testing.T) { quietInAll(t, atHosts(away)) })
	t.Run("secrets are in files", func(t *testing.T) {
		quietInAll(t, with(atHosts(away), map[string]string{"OPENAI_API_KEY": "", "HTTP_TOKENS": "", "OPENAI_API_KEY_FILE": file, "HTTP_TOKEN_FILE": file}))
	})
	t.Run("servers refuse", func(t *testing.T) { quietInAll(t, refusing(t)) })
	for name, form := range map[string]string{
		"escape": "$1://keyfold:" + canary + "%zz@127.0.0.1:1/", "port": "$1://keyfold:" + canary + "@127.0.0.1:port/", "no scheme": "keyfold:" + canary + "@127.0.0.1:1/",
		"slash": "$1://keyfold:x/" + canary + "@127.0.0.1:1/", "bare": canary, "two ats": "$1://keyfold:x@" + canary + "@127.0.0.1:1/", "space": "$1://keyfold:" + canary + " x@127.0.0.1:1/",
		"parameter": "$1://127.0.0.1:1/d?password=" + canary, "driver's own": "keyfold:" + canary + "@tcp(127.0.0.1:1)/shop",
	} {
		t.Run("not an address: "+name, func(t *testing.T) {
			faulty := map[string]string{}
			for variable, usual := range secretSettings {
				if scheme, _, isAddress := strings.Cut(usual, "://"); isAddress {
					faulty[variable] = strings.ReplaceAll(form, "$1", scheme)
				}
			}
			quietInAll(t, with(atHosts(away), faulty))
		})
	}
}

// atHosts returns the settings with the hosts of their servers.
func atHosts(host func(variable string) string) map[string]string {
	env := map[string]string{
		"EMBEDDER": "openai", "ADMIN_ADDR": "127.0.0.1:0", "HTTP_ADDR": "127.0.0.1:0", "LOG_LEVEL": "debug", "EMBEDDING_DIMENSIONS": "8",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=" + canary,
		"WORKER_SHUTDOWN_TIMEOUT": "2", "STATUS_PROCESSES": "127.0.0.1:1",
	}
	for variable, usual := range secretSettings {
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
		args := append(strings.Fields(command), strings.Fields(exampleArguments[command])...)
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
	for _, r := range []io.Reader{strings.NewReader(out.String()), strings.NewReader(log.String()), &answers} {
		text, _ := io.ReadAll(r)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, canary[:8]) {
				t.Errorf("%v printed a secret: %s", args, line)
			}
		}
	}
}
