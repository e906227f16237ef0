package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// daemon is a grammar with all settings of this package.
type daemon struct {
	Log       Log       `embed:""`
	Servers   Servers   `embed:""`
	Embedding Embedding `embed:""`
	Settings  Engine    `embed:""`
	Serve     struct {
		Tokens []string `name:"http-tokens" env:"HTTP_TOKENS" secret:""`
		Rate   string   `name:"http-rate" env:"HTTP_RATE"`
	} `cmd:""`
	Other struct{} `cmd:""`
}

func command(t *testing.T, grammar any, args ...string) *kong.Context {
	t.Helper()
	p, err := kong.New(grammar, kong.Name("test"), Defaults(grammar), LogDefaults("info", "json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A warning comes for a name that looks like a setting and is none, and for no other
// program's variable.
func TestUnknownVariables(t *testing.T) {
	c := command(t, &daemon{}, "other")
	for environ, want := range map[string]string{
		"EMBEDDING_WINDOW=3":          "did you mean EMBEDDING_BATCH_WINDOW?",
		"EMBEDDING_BATCH_WINDOW_MS=3": "did you mean EMBEDDING_BATCH_WINDOW?",
		"EMBEDDING_DIMENSION=3":       "did you mean EMBEDDING_DIMENSIONS?",
		"WORKER_SHARD=9":              "did you mean WORKER_SHARDS?",
		"WORKER_MEMROY_LIMIT=1G":      "did you mean WORKER_MEMORY_LIMIT?",
		"WORKER_COLOUR=red":           "`test help settings` lists the settings",
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
		if got := Unknown(c, []string{environ}); len(got) != 1 || got[0] != (Warning{name, "unknown setting", want}) {
			t.Errorf("%s: got %q, want %q", environ, got, want)
		}
	}
	foreign := []string{
		"HOME=/", "REDIS_HOST=x", "REDIS_PORT=1", "MONGODB_TEST_URI=x", "HTTP_PROXY=x", "HTTP_HOST=x", "HTTP_PATH=x", "DATABASE_HOST=x",
		"MONGODB_USER=x", "LOG_FILE=x", "OPENAI_ORG_ID=x", "RABBITMQ_NODENAME=x", "WORKER_SERVICE_HOST=x", "EMBEDDING_API_PORT_80_TCP=x",
		"KEYFOLD_TEST_DATA=x", "KEYFOLD_TEST_REDIS_URL=x", "KEYFOLD_SOAK=1", "KEYFOLD_SIM_DEEPS=1", "KEYFOLD_URL=x", "KEYFOLD_TOKEN=x",
		"REDIS_URL=x", "EMBEDDING_MODEL=x", "RABBITMQ_DSN=x", "=C:=x", "",
	}
	if got := Unknown(c, foreign); len(got) > 0 {
		t.Errorf("warnings of other programs' variables: %q", got)
	}
	// One that is set is not what a similar one was meant to be.
	if got := Unknown(c, []string{"MONGODB_URI=x", "MONGODB_URL=x"}); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// A program does not warn of the other's settings.
func TestSettingsElsewhere(t *testing.T) {
	var lite struct {
		Settings Engine   `embed:""`
		Run      struct{} `cmd:""`
	}
	var environ []string
	eachVariable(command(t, &daemon{}, "serve"), func(_ *kong.Flag, name string) { environ = append(environ, name+"=x") })
	if got := Unknown(command(t, &lite, "run"), environ); len(got) > 0 || len(environ) < 30 {
		t.Errorf("of %d settings: %q", len(environ), got)
	}
}

func TestWarningsOfValues(t *testing.T) {
	c, err := parse(t, map[string]string{"WORKER_PREFETCH": "60000", "WORKER_MEMORY_LIMIT": "64M"}).Config()
	want := []Warning{{"WORKER_PREFETCH", "setting lowered", "4096 is used instead of 60000: raise WORKER_MEMORY_LIMIT (64M), of which an event takes 16 KiB"}}
	if err != nil || !slices.Equal(c.Warnings, want) {
		t.Errorf("%v, %q", err, c.Warnings)
	}
	if c, err = parse(t, map[string]string{"WORKER_PREFETCH": "4096"}).Config(); err != nil || len(c.Warnings) > 0 {
		t.Errorf("the default prefetch in the lowest memory: %v, %q", err, c.Warnings)
	}
	for base, warned := range map[string]bool{
		"http://localhost:8080": true, "http://localhost:8080/": true, "http://localhost:8080/v1": false, "https://user:s3cret@host": true, "": false,
	} {
		c, _ := parseEmbedding(t, map[string]string{"OPENAI_BASE_URL": base}).Config(64)
		if text := fmt.Sprint(c.Warnings); (len(c.Warnings) > 0) != warned || strings.Contains(text, "s3cret") {
			t.Errorf("OPENAI_BASE_URL=%s: %s", base, text)
		}
	}
}
