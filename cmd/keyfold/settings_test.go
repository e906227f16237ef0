package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"
)

// parsed returns a call of a program with this grammar.
func parsed(t *testing.T, grammar any, args ...string) *kong.Context {
	t.Helper()
	p, err := commandLine.Parser(grammar, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
	c, err := p.Parse(args)
	must.OK(t, err)
	return c
}

// A setting's source is where its value is from, a flag before a variable.
func TestSources(t *testing.T) {
	for name, value := range map[string]string{
		"EMBEDDING_BATCH_WINDOW": "7", "WORKER_SHARDS": "3", "HTTP_TOKENS": "one,two", "EMBEDDING_FOLD_CASE": "", "RABBITMQ_DSN": "amqp://u:s3cret@h/",
	} {
		t.Setenv(name, value)
	}
	all := settings.List(parsed(t, &commands{}, "version", "--batch-window=8", "--openai-api-key=s3cret"))
	for _, want := range []settings.Setting{
		{Variable: "EMBEDDING_BATCH_WINDOW", Flag: "--batch-window", Value: "8", Source: settings.FromFlag},
		{Variable: "WORKER_SHARDS", Flag: "--shards", Value: "3", Source: settings.FromEnvironment},
		{Variable: "EMBEDDING_DIMENSIONS", Flag: "--dimensions", Value: "1536", Source: settings.FromDefault},
		{Variable: "MONGODB_DATABASE", Flag: "--mongodb-database", Value: "keyfold", Source: settings.FromDefault},
		{Variable: "EMBEDDING_FOLD_CASE", Flag: "--embedding-fold-case", Value: "false", Source: settings.FromEnvironment},
		{Variable: "OPENAI_API_KEY", Flag: "--openai-api-key", Value: "***", Source: settings.FromFlag},
		{Variable: "HTTP_TOKENS", Flag: "--http-tokens", Value: "***", Source: settings.FromEnvironment}, // of another command
		{Variable: "HTTP_RATE", Flag: "--http-rate", Value: "5000/s", Source: settings.FromDefault},
		{Variable: "RABBITMQ_DSN", Flag: "--rabbitmq-dsn", Value: "amqp://u:***@h/", Source: settings.FromEnvironment},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%+v is missing in %+v", want, all)
		}
	}
}

// A warning comes for a name that looks like a setting and is none, and for no other
// program's variable.
func TestUnknownVariables(t *testing.T) {
	c := parsed(t, &commands{}, "version")
	for environ, want := range map[string]string{
		"EMBEDDING_WINDOW=3":          "did you mean EMBEDDING_BATCH_WINDOW?",
		"EMBEDDING_BATCH_WINDOW_MS=3": "did you mean EMBEDDING_BATCH_WINDOW?",
		"EMBEDDING_DIMENSION=3":       "did you mean EMBEDDING_DIMENSIONS?",
		"WORKER_SHARD=9":              "did you mean WORKER_SHARDS?",
		"WORKER_MEMROY_LIMIT=1G":      "did you mean WORKER_MEMORY_LIMIT?",
		"WORKER_COLOUR=red":           "`keyfold help settings` lists the settings",
		"RABBITMQ_DNS=x":              "did you mean RABBITMQ_DSN?",
		"MONGO_URI=x":                 "did you mean MONGODB_URI?",
		"MONGODB_URL=x":               "did you mean MONGODB_URI?",
		"OPENAI_APIKEY=x":             "did you mean OPENAI_API_KEY?",
		"OPENAI_KEY_API=x":            "did you mean OPENAI_API_KEY?",
		"REDIS_URI=x":                 "did you mean REDIS_URL?",
		"HTTP_TOKEN=x":                "did you mean HTTP_TOKENS?",
		"LOGLEVEL=x":                  "did you mean LOG_LEVEL?",
		"KEYFOLD_MONGODB_URI=x":       "did you mean MONGODB_URI?",
	} {
		name, _, _ := strings.Cut(environ, "=")
		if got := settings.Unknown(c, []string{environ}); len(got) != 1 || got[0] != (settings.Warning{Variable: name, Text: "unknown setting", Hint: want}) {
			t.Errorf("%s: got %q, want %q", environ, got, want)
		}
	}
	foreign := []string{
		"HOME=/", "REDIS_HOST=x", "REDIS_PORT=1", "MONGODB_TEST_URI=x", "HTTP_PROXY=x", "HTTP_HOST=x", "HTTP_PATH=x", "DATABASE_HOST=x",
		"MONGODB_USER=x", "LOG_FILE=x", "OPENAI_ORG_ID=x", "RABBITMQ_NODENAME=x", "WORKER_SERVICE_HOST=x", "EMBEDDING_API_PORT_80_TCP=x",
		"KEYFOLD_TEST_DATA=x", "KEYFOLD_TEST_REDIS_URL=x", "KEYFOLD_SOAK=1", "KEYFOLD_SIM_DEEPS=1", "KEYFOLD_URL=x", "KEYFOLD_TOKEN=x",
		"REDIS_URL=x", "EMBEDDING_MODEL=x", "RABBITMQ_DSN=x", "=C:=x", "",
	}
	if got := settings.Unknown(c, foreign); len(got) > 0 {
		t.Errorf("warnings of other programs' variables: %q", got)
	}
	// One that is set is not what a similar one was meant to be.
	if got := settings.Unknown(c, []string{"MONGODB_URI=x", "MONGODB_URL=x"}); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// A program does not warn of the other's settings.
func TestSettingsElsewhere(t *testing.T) {
	var lite struct {
		Settings settings.Engine `embed:""`
		Run      struct{}        `cmd:""`
	}
	var environ []string
	for _, s := range settings.List(parsed(t, &commands{}, "version")) {
		environ = append(environ, s.Variable+"=x")
	}
	if got := settings.Unknown(parsed(t, &lite, "run"), environ); len(got) > 0 || len(environ) < 30 {
		t.Errorf("of %d settings: %q", len(environ), got)
	}
}

// A call's parser knows the called command as the parser of all commands does, with all flags of
// the program, and few others unless it reads their settings; and a call warns of no variable
// that another command reads.
func TestParserOfTheCalledCommand(t *testing.T) {
	t.Parallel()
	all, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
	var environ []string
	for _, s := range settings.List(parsed(t, &commands{}, "version")) {
		environ = append(environ, s.Variable+"=x")
	}
	every := all.Model.Leaves(false)
	for _, want := range every {
		p, err := commandLine.Parser(&commands{}, strings.Fields(want.Path()), cli.Streams{}, func(int) {})
		must.OK(t, err)
		if got, want := flagNames(p.Model.Flags), flagNames(all.Model.Flags); !slices.Equal(got, want) {
			t.Errorf("%s: of the program's flags it knows %q, want %q", want, got, want)
		}
		known := p.Model.Leaves(false)
		if !slices.ContainsFunc(known, func(n *kong.Node) bool {
			return n.Path() == want.Path() && slices.Equal(flagNames(n.Flags), flagNames(want.Flags))
		}) {
			t.Errorf("%s is not known, with %q", want.Path(), flagNames(want.Flags))
		}
		if all := strings.HasPrefix(want.Path(), "config "); all && len(known) != len(every) || !all && len(known) > len(every)/4 {
			t.Errorf("%s: %d of %d commands are known", want.Path(), len(known), len(every))
		}
	}
	p, err := commandLine.Parser(&commands{}, []string{"version"}, cli.Streams{}, func(int) {})
	must.OK(t, err)
	c, err := p.Parse([]string{"version"})
	must.OK(t, err)
	if got := settings.Unknown(c, environ); len(got) > 0 || len(environ) < 30 {
		t.Errorf("of %d settings: %q", len(environ), got)
	}
}

func flagNames(flags []*kong.Flag) (names []string) {
	for _, f := range flags {
		names = append(names, f.Name)
	}
	return names
}

// What each call of the program pays before it does anything.
func BenchmarkParser(b *testing.B) {
	for _, args := range [][]string{nil, {"status"}, {"notify", "rules", "list"}} {
		b.Run(strings.Join(args, " "), func(b *testing.B) {
			for b.Loop() {
				if _, err := commandLine.Parser(&commands{}, args, cli.Streams{}, func(int) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// So does the look for misspelled variables, in an environment of 40.
func BenchmarkUnknown(b *testing.B) {
	p, err := commandLine.Parser(&commands{}, []string{"version"}, cli.Streams{}, func(int) {})
	if err != nil {
		b.Fatal(err)
	}
	c, err := p.Parse([]string{"version"})
	if err != nil {
		b.Fatal(err)
	}
	var environ []string
	for _, name := range []string{"HOME", "PATH", "SHLVL", "GOFLAGS", "LS_COLORS", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "DEBIAN_FRONTEND"} {
		for i := range 5 {
			environ = append(environ, strings.Repeat(name[:1], i)+name+"=x")
		}
	}
	for b.Loop() {
		settings.Unknown(c, environ)
	}
}
