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

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

// withoutServers points a command at servers that are away: a command that asks one
// of them ends with a failure.
func withoutServers(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	flags := []string{
		"--rabbitmq-dsn=amqp://guest:guest@127.0.0.1:1/", "--mongodb-uri=mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50",
		"--database-url=mysql://shop:s3cret@127.0.0.1:1/shop", "--admin-addr=127.0.0.1:0", "--embedder=hash", "--dimensions=8",
	}
	return keyfold(t.Context(), "", append(flags, args...)...)
}

// MongoDB that is away is a failure; the message names what to look at, and no secret.
// Its text depends on how far the driver came within the wait: no script compares it.
func TestServersAway(t *testing.T) {
	for _, c := range []struct {
		args string
		says string
	}{
		{"setup", "RABBITMQ_DSN"},
		{"setup", "MONGODB_URI"},
		{"setup", "DATABASE_URL"},
		{"user show 17", "MONGODB_URI"},
		{"user forget 17 --yes", "MONGODB_URI"},
		{"products import -", "MONGODB_URI"},
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
	must.OK(t, err)
	documented := map[string]string{}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for row := range strings.Lines(string(text)) {
			if cells := strings.Split(row, "|"); len(cells) > 3 {
				documented[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
			}
		}
	}
	parser, err := commandLine.Parser(new(commands), nil, cli.Streams{}, nil)
	must.OK(t, err)
	compared := 0
	must.OK(t, kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
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

// Every command judges what it was called with.
func TestEveryCommandChecks(t *testing.T) {
	parser, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
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
	parser, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
	for _, n := range parser.Model.Leaves(false) {
		args := append(strings.Fields(strings.TrimPrefix(n.Path(), "keyfold ")), "--help")
		if code, out, errs := keyfold(t.Context(), "", args...); code != 0 || !strings.Contains(out, "Usage: ") || errs != "" {
			t.Errorf("%v: exit code %d, want 0, a usage and no error:\n%s%s", args, code, out, errs)
		}
	}
}

// arguments are what a command needs to be called.
var arguments = map[string]string{
	"ingest": "--relay", "products import": "x --embed", "products learn": "--into x", "embed": "x",
	"user show": "1", "user explain": "1", "recommend": "1", "user rebuild": "1 --streams=1", "user forget": "1", "dlq show": "x", "failed show": "x",
	"history prune": "--older-than=1h", "notify failed show": "x", "notify failed remove": "x", "notify dlq show": "x", "notify send": "x",
	"notify user show": "x", "notify user set": "x {}", "notify user import": "x", "notify user merge": "x y", "notify user forget": "x", "notify user verify": "x",
	"notify decision show": "x", "notify event show": "x",
	"notify rules lint": "x", "notify rules test": "x", "notify rules publish": "x --if-active=1 --note=x",
	"notify rules rollback": "1", "notify rules simulate": "main.go", "notify rules diff": "1 2",
	"notify work": "--notify-ai=on",
}

// leaves calls do with each command that reads settings.
func leaves(t *testing.T, do func(command string, n *kong.Node)) {
	t.Helper()
	parser, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
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
	t.Parallel()
	faulty := []string{"--rabbitmq-dsn=x", "--mongodb-uri=x", "--database-url=x", "--openai-api-key-file=", "--notify-database-url=x"}
	reported := map[string]string{"--rabbitmq-dsn": "RABBITMQ_DSN", "--mongodb-uri": "MONGODB_URI", "--database-url": "DATABASE_URL", "--openai-api-key": "OPENAI_API_KEY", "--notify-database-url": "NOTIFY_DATABASE_URL"}
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
			if command == "dashboard" && flag == "--openai-api-key" {
				continue // without a key its pages of users say that reasons are not known
			}
			if shown, used := strings.Contains(help.String(), " "+flag+"="), regexp.MustCompile(`\b`+name).MatchString(errs.String()); shown != used {
				t.Errorf("%s: help shows %s: %t, the command uses it: %t\n%s", command, flag, shown, used, &errs)
			}
		}
	})
}

// A program's help shows its commands before its flags, and of the flags those of
// every command.
func TestHelpShowsCommandsFirst(t *testing.T) {
	for _, args := range []string{"--help", "failed --help", "user --help"} {
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
	must.OK(t, err)
	parser, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
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
			`"error":"MongoDB does not listen at its address; check that it runs, and that MONGODB_URI has its host and port`)
	})
}
