package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
)

// withoutServers points a command at servers that are away: a command that asks one
// of them ends with a failure.
func withoutServers(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	flags := []string{
		"--rabbitmq-dsn=amqp://guest:guest@127.0.0.1:1/", "--mongodb-uri=mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50",
		"--database-url=mysql://shop:s3cret@127.0.0.1:1/shop", "--admin-addr=127.0.0.1:0", "--embedder=hash", "--dimensions=8",
	}
	code = run(t.Context(), append(flags, args...), cli.Streams{Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e})
	return code, o.String(), e.String()
}

// What can never work is a usage error and asks no server.
func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"user forget 0", "it must be an integer from 1 to 2147483647"},
		{"user forget 3000000000", "it must be an integer from 1 to 2147483647"},
		{"user show x", "it must be an integer from 1 to 2147483647"},
		{"user forget x", "keyfold user forget --help"},
		{"user forget 17", "--yes"},
		{"outbox cleanup", "--yes"},
		{"dlq discard 3f9a", "--yes"},
		{"user show 0", "from 1 to"},
		{"user show 1 --near=-1", "--near"},
		{"user rebuild", "--all"},
		{"user rebuild 17 --all", "--all"},
		{"user rebuild 17 --after 3", "--after"},
		{"user rebuild 3000000000", "it must be an integer from 1 to 2147483647"},
		{"user rebuild --all --after=3000000000", "it must be an integer from 1 to 2147483647"},
		{"dlq list --user=x", "it must be an integer from 1 to 2147483647"},
		{"dlq discard --user=0 --yes", "from 1 to"},
		{"dlq replay --failed-after=1h --failed-before=2h", "--failed-before"},
		{"dlq replay --rate=0", "100/s"},
		{"dlq discard", "--yes"},
		{"dlq list --rabbitmq-dsn=localhost", "RABBITMQ_DSN"},
		{"backfill --user=0", "from 1 to"},
		{"backfill --type=sale", "product_purchase"},
		{"backfill --from=1h --until=2h", "--until"},
		{"backfill --from=3d --until=3d", "--from the earlier time, such as --from 3d --until 2d"},
		{"backfill --from=72h --until=3d", "nothing is between them"},
		{"backfill --from=2026-02-10T14:30:00Z --until=2026-02-10T14:30:00.0009Z", "nothing is between them"},
		{"dlq replay --failed-after=2h --failed-before=2h", "--failed-after the earlier time"},
		{"backfill --database-url=oracle://shop:s3cret@127.0.0.1/shop", "mysql://"},
		{"outbox stats --database-url=", "DATABASE_URL"},
		{"outbox stats --database-url=mysql://127.0.0.1", "DATABASE_URL"},
		{"outbox cleanup --older-than=0s", "--older-than"},
		{"outbox cleanup --older-than=soon", "7d"},
		{"setup --print=oracle", "mariadb"},
		{"setup --partitions=65", "(RABBITMQ_PARTITIONS) is 65"},
		{"work --worker-partitions=7-3", "WORKER_PARTITIONS"},
		{"work --worker-partitions=0-7", "and RABBITMQ_PARTITIONS is not: the worker would consume the one queue"},
		{"work --admin-addr=127.0.0.1:99999", "ADMIN_ADDR"},
		{"ingest --http-addr=127.0.0.1:99999", "HTTP_ADDR"},
		{"failed list --in=attic", "--in"},
		{"failed archive --database-url=", "DATABASE_URL"},
		{"relay --database-url=", "DATABASE_URL"},
		{"status --every=0s", "--every"},
		{"status --processes=worker-1", "STATUS_PROCESSES"},
		{"status --rabbitmq-management-url=localhost:15672", "RABBITMQ_MANAGEMENT_URL"},
		{"partition --rabbitmq-dsn=localhost", "RABBITMQ_DSN"},
		{"ingest --http-addr=nowhere", "HTTP_ADDR"},
		{"ingest --http-tokens=short", "HTTP_TOKENS"},
		{"ingest --http-token-file=/does/not/exist", "HTTP_TOKEN_FILE"},
		{"ingest --http-tls-cert=/does/not/exist", "HTTP_TLS_KEY"},
		{"ingest --http-max-concurrent=-1", "HTTP_MAX_CONCURRENT"},
		{"setup --foreign-keys --database-url=", "DATABASE_URL"},
		{"setup --adopt=shop_events --database-url=sqlite:file", "RENAME TO user_interactions"},
		{"setup --adopt-backfill", "name it with --adopt"},
		{"relay --outbox-cleanup-every=0s", "OUTBOX_CLEANUP_EVERY"},
		{"setup --foreign-keys --database-url=sqlite:file", "SQLite"},
		{"setup --mongodb-uri=mongo://x", "MONGODB_URI"},
		{"setup --mongodb-database=a.b", "MONGODB_DATABASE"},
		{"products import - --again", "--embed"},
		{"products import - --embed --embedder=openai", "OPENAI_API_KEY"},
		{"work --embedder=openai", "OPENAI_API_KEY"},
		{"embed --near=-1 mug", "--near"},
		{"notify work", "NOTIFY_DATABASE_URL is not set"},
		{"notify serve", "NOTIFY_DATABASE_URL is not set"},
		{"notify serve --notify-database-url=postgres://127.0.0.1:1/d --http-tokens=short", "HTTP_TOKENS"},
		{"notify send", "<file>"},
		{"notify decision show x --notify-database-url=postgres://127.0.0.1:1/d", "is no UUID"},
		{"notify event show 6f6c4d00-8000-4000-8000-000000000001", "NOTIFY_DATABASE_URL is not set"},
		{"notify serve --notify-database-url=postgres://127.0.0.1:1/d --notify-rules=/does/not/exist", "NOTIFY_RULES"},
		{"notify work --notify-database-url=mysql://h/d", "postgres://user:password@host:5432/name"},
		{"notify setup --notify-admin-url=postgres://h", "NOTIFY_ADMIN_URL"},
		{"notify work --notify-rules=/does/not/exist", "NOTIFY_RULES"},
		{"notify rules lint /does/not/exist", "/does/not/exist"},
		{"notify rules publish usage_test.go --if-active=1 --note=x", "NOTIFY_DATABASE_URL is not set"},
		{"notify rules publish usage_test.go --if-active=0 --note=x", "--if-active"},
		{"notify rules publish usage_test.go", "--if-active"},
		{"notify rules shadow usage_test.go --off", "exclude each other"},
		{"notify rules shadow /does/not/exist", "/does/not/exist"},
		{"notify rules rollback 0", "numbers begin at 1"},
		{"notify rules show -- -1", "numbers begin at 1"},
		{"notify rules diff 1 0", "numbers begin at 1"},
		{"notify rules list --limit=0", "--limit"},
		{"notify work --notify-ai=perhaps", "NOTIFY_AI"},
		{"notify work --notify-ai=on --mongodb-uri=h", "MONGODB_URI"},
		{"notify score calibrate --last=0s --notify-database-url=postgres://127.0.0.1:1/d", "--last"},
		{"notify rules simulate main.go --sample=2 --notify-database-url=postgres://127.0.0.1:1/d", "--sample"},
		{"notify rules simulate main.go --last=0s --notify-database-url=postgres://127.0.0.1:1/d", "--last"},
		{"notify rules simulate /does/not/exist", "the candidate"},
		{"notify rules simulate main.go", "NOTIFY_DATABASE_URL is not set"},
		{"notify work --notify-zone=Nowhere --notify-morning=25:00", "NOTIFY_MORNING"},
		{"notify retention --notify-retention=soon --notify-key-retention=1h", "NOTIFY_KEY_RETENTION"},
	} {
		code, out, errs := withoutServers(t, strings.Fields(c.args)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errs, c.says) || strings.Contains(errs, "s3cret") {
			t.Errorf("keyfold %s: exit code %d, want one of usage that says %q: %s%s", c.args, code, c.says, out, errs)
		}
	}
}

// Only what would have run on says that it was not started.
func TestNotStartedIsSaidOfServicesOnly(t *testing.T) {
	for args, want := range map[string]string{
		"work --embedder=openai": "keyfold: not started:\n", "relay --database-url=": "keyfold: not started:\n", "partition --rabbitmq-dsn=x": "keyfold: not started:\n", "ingest --http-addr=nowhere": "keyfold: not started:\n",
		"user rebuild": "keyfold: name a user's id, or --all\n",
	} {
		if _, _, errs := withoutServers(t, strings.Fields(args)...); !strings.HasPrefix(errs, want) {
			t.Errorf("%s: %q, want %q", args, errs, want)
		}
	}
}

// A server that is away is a failure; the message names what to look at, and no
// secret.
func TestServersAway(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"dlq list", "RABBITMQ_DSN"},
		{"dlq discard --type=sale --dry-run", "RABBITMQ_DSN"},
		{"outbox cleanup --dry-run", "DATABASE_URL"},
		{"dlq replay", "RABBITMQ_DSN"},
		{"setup", "RABBITMQ_DSN"},
		{"setup", "MONGODB_URI"},
		{"setup", "DATABASE_URL"},
		{"user show 17", "MONGODB_URI"},
		{"user forget 17 --yes", "MONGODB_URI"},
		{"products import -", "MONGODB_URI"},
		{"products import /does/not/exist", "NDJSON"},
		{"outbox stats", "DATABASE_URL"},
		{"backfill", "DATABASE_URL"},
		{"user rebuild 17", "DATABASE_URL"},
	} {
		code, _, errs := withoutServers(t, strings.Fields(c.args)...)
		if code != cli.ExitFailure || !strings.Contains(errs, c.says) || strings.Contains(errs, "s3cret") {
			t.Errorf("keyfold %s: exit code %d, want a failure that says %q: %s", c.args, code, c.says, errs)
		}
	}
}

// The defaults that the pages name are those in force.
func TestDocumentedDefaults(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	documented := map[string]string{}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		must(t, err)
		for row := range strings.Lines(string(text)) {
			if cells := strings.Split(row, "|"); len(cells) > 3 {
				documented[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
			}
		}
	}
	parser, err := commandLine.Parser(new(commands), cli.Streams{}, nil)
	must(t, err)
	compared := 0
	must(t, kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		flag, ok := node.(*kong.Flag)
		if ok && len(flag.Envs) == 1 && flag.Default != "" && flag.Default != "0" {
			if text, ok := documented[flag.Envs[0]]; ok {
				compared++
				if text, _, _ := strings.Cut(text, " (lite"); text != flag.Default {
					t.Errorf("%s is documented as %s, its default is %s", flag.Envs[0], text, flag.Default)
				}
			}
		}
		return next(nil)
	}))
	if compared < 20 || documented["WORKER_PREFETCH"] == "" {
		t.Errorf("%d defaults were compared", compared)
	}
}

// Every fault of the environment is told at once, each by its variable's name,
// before anything is asked.
func TestEveryFaultOfTheEnvironmentAtOnce(t *testing.T) {
	env := map[string]string{
		"LOG_LEVEL": "loud", "LOG_FORMAT": "xml", "RABBITMQ_DSN": "localhost", "RABBITMQ_QUEUE_TYPE": "fast",
		"DATABASE_URL": "postgres://x", "ADMIN_ADDR": "x", "EMBEDDER": "magic", "OPENAI_TIMEOUT": "soon",
		"OPENAI_OMIT_DIMENSIONS": "x", "EMBEDDING_FOLD_CASE": "x", "EMBEDDING_BATCH_ENABLED": "maybe",
		"EMBEDDING_BATCH_WINDOW": "soon", "EMBEDDING_DIMENSIONS": "many", "WORKER_SHUTDOWN_TIMEOUT": "late",
		"HTTP_ADDR": "nowhere", "HTTP_INSECURE": "perhaps", "HTTP_RATE": "many", "HTTP_SENDER_RATE": "few", "HTTP_MAX_CONCURRENT": "-1",
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"ingest", "--relay"}, cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	if code != cli.ExitUsage || out.Len() > 0 {
		t.Errorf("exit code %d: %s", code, &out)
	}
	for name := range env {
		if !strings.Contains(errs.String(), name) {
			t.Errorf("%s is missing", name)
		}
	}
	if n := strings.Count(errs.String(), "\n") - 1; n != len(env) { // below the heading
		t.Errorf("%d faults are told, want %d:\n%s", n, len(env), &errs)
	}
	// What only other commands need does not matter.
	errs.Reset()
	run(t.Context(), []string{"setup", "--print=sqlite"}, cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	for _, name := range []string{"HTTP_", "RABBITMQ_DSN", "DATABASE_URL"} {
		if strings.Contains(errs.String(), name) {
			t.Errorf("setup --print speaks of %s:\n%s", name, &errs)
		}
	}
}

// The API's settings are judged before its database is asked.
func TestIngestJudgesItsSettingsFirst(t *testing.T) {
	code, _, errs := withoutServers(t, "ingest", "--http-addr=0.0.0.0:0", "--http-tls-key=/does/not/exist")
	if code != cli.ExitUsage || !strings.Contains(errs, "HTTP_TOKEN_FILE") || !strings.Contains(errs, "HTTP_TLS_CERT") || strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// Every command judges what it was called with.
func TestEveryCommandChecks(t *testing.T) {
	parser, err := commandLine.Parser(&commands{}, cli.Streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	wanted := reflect.TypeFor[cli.Checker[*app.App]]()
	var walk func(*kong.Node)
	walk = func(n *kong.Node) {
		for _, child := range n.Children {
			walk(child)
		}
		if n.Leaf() && !plain(n) && !reflect.PointerTo(n.Target.Type()).Implements(wanted) {
			t.Errorf("%s has no check", n.FullPath())
		}
	}
	walk(parser.Model.Node)
}

// plain reports whether a command reads no settings.
func plain(n *kong.Node) bool {
	_, ok := n.Target.Addr().Interface().(cli.Plain)
	return ok
}

// Every command answers --help, whatever is wrong with the environment.
func TestHelpAlwaysAnswers(t *testing.T) {
	for _, name := range []string{"LOG_LEVEL", "RABBITMQ_DSN", "EMBEDDING_DIMENSIONS", "EMBEDDING_BATCH_ENABLED", "HTTP_RATE", "DATABASE_URL"} {
		t.Setenv(name, "?")
	}
	parser, err := commandLine.Parser(&commands{}, cli.Streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Leaves(false) {
		args := append(strings.Fields(strings.TrimPrefix(n.Path(), "keyfold ")), "--help")
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}); code != 0 || !strings.Contains(out.String(), "Usage: ") || errs.Len() > 0 {
			t.Errorf("%v: exit code %d: %s", args, code, &errs)
		}
	}
}

// arguments are what a command needs to be called.
var arguments = map[string]string{
	"ingest": "--relay", "products import": "x --embed", "embed": "x",
	"user show": "1", "user rebuild": "1", "user forget": "1", "dlq show": "x", "dlq discard": "x", "failed show": "x",
	"history prune": "--older-than=1h", "notify dlq show": "x", "notify dlq discard": "x", "notify send": "x",
	"notify user show": "x", "notify user set": "x {}", "notify user forget": "x", "notify user verify": "x",
	"notify decision show": "x", "notify event show": "x",
	"notify rules lint": "x", "notify rules test": "x", "notify rules publish": "x --if-active=1 --note=x",
	"notify rules rollback": "1", "notify rules simulate": "main.go", "notify rules diff": "1 2",
	"notify work": "--notify-ai=on",
}

// leaves calls do with each command that reads settings.
func leaves(t *testing.T, do func(command string, n *kong.Node)) {
	t.Helper()
	parser, err := commandLine.Parser(&commands{}, cli.Streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Leaves(false) {
		command := strings.TrimPrefix(strings.SplitN(n.Path(), " <", 2)[0], "keyfold ")
		if !plain(n) {
			do(strings.SplitN(command, " [", 2)[0], n)
		}
	}
}

// A command's help shows a server's settings where the command judges them, and
// only there.
func TestHelpShowsTheSettingsACommandUses(t *testing.T) {
	faulty := []string{"--rabbitmq-dsn=x", "--mongodb-uri=x", "--database-url=x", "--openai-api-key-file=", "--notify-database-url=x"}
	reported := map[string]string{"--rabbitmq-dsn": "RABBITMQ_DSN", "--mongodb-uri": "MONGODB_URI", "--database-url": "DATABASE_URL", "--openai-api-key": "OPENAI_API_KEY", "--notify-database-url": "NOTIFY_DATABASE_URL"}
	t.Setenv("OPENAI_API_KEY", "")
	leaves(t, func(command string, _ *kong.Node) {
		if command == "config show" { // which shows all settings and judges no address
			return
		}
		var help, out, errs bytes.Buffer
		run(t.Context(), append(strings.Fields(command), "--help"), cli.Streams{Stdin: strings.NewReader(""), Stdout: &help, Stderr: &errs})
		args := slices.Concat(faulty, strings.Fields(command), strings.Fields(arguments[command]))
		if code := run(t.Context(), args, cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}); code != cli.ExitUsage {
			t.Errorf("%s: exit code %d: %s", command, code, &errs)
		}
		for flag, name := range reported {
			if shown, used := strings.Contains(help.String(), " "+flag+"="), regexp.MustCompile(`\b`+name).MatchString(errs.String()); shown != used {
				t.Errorf("%s: help shows %s: %t, the command uses it: %t\n%s", command, flag, shown, used, &errs)
			}
		}
	})
}

// A program's help shows its commands before its flags, and of the flags those of
// every command.
func TestHelpShowsCommandsFirst(t *testing.T) {
	for _, args := range []string{"--help", "dlq --help", "user --help"} {
		var out, errs bytes.Buffer
		run(t.Context(), strings.Fields(args), cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
		commands, flags := strings.Index(out.String(), "\nCommands:"), strings.Index(out.String(), "\nFlags:")
		if commands < 0 || flags < commands || strings.Contains(out.String(), "--weight-search") {
			t.Errorf("%s:\n%s", args, &out)
		}
	}
}

// SETTINGS.md has every variable with its default.
func TestSettingsPageListsEveryVariable(t *testing.T) {
	page, err := os.ReadFile("../../docs/SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := commandLine.Parser(&commands{}, cli.Streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for row := range strings.Lines(string(page)) {
		if cells := strings.Split(row, "|"); len(cells) > 3 {
			for name := range strings.SplitSeq(cells[1], ",") {
				rows[strings.TrimSpace(name)] = cells[2]
			}
		}
	}
	flags := slices.Concat(parser.Model.Flags, parser.Model.Children[slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == "ingest" })].Flags)
	for _, flag := range flags {
		for _, name := range flag.Envs {
			if defaults, ok := rows[name]; !ok || flag.Default != "0" && !strings.Contains(defaults, flag.Default) {
				t.Errorf("%s (default %q) has the row %q", name, flag.Default, defaults)
			}
		}
	}
}

// A worker whose store does not answer at its start says so, and why.
func TestWaitingForTheStoreIsLogged(t *testing.T) {
	s := &stack{dsn: "amqp://127.0.0.1:1", mongo: "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", history: "mass"}
	d := s.work(t)
	eventually(t, "the wait is logged", func() error {
		return d.logged(`"version":"`, `"commit":"`, `"msg":"store not reachable: the worker waits for it"`, `"retry_in":"`,
			`"error":"MongoDB does not answer: is it running, is MONGODB_URI right?`)
	})
}
