package embedding

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
	"keyfold/source/vector/openai"
)

func parseEmbedding(t *testing.T, env map[string]string, args ...string) Settings {
	t.Helper()
	for _, name := range []string{"EMBEDDER", "OPENAI_API_KEY", "OPENAI_BASE_URL", "REDIS_URL"} {
		t.Setenv(name, "") // the developer's own
		must.OK(t, os.Unsetenv(name))
	}
	for k, v := range env {
		t.Setenv(k, v)
	}
	var s Settings
	p, err := kong.New(&s, kong.Name("test"))
	must.OK(t, err)
	if _, err := p.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

// Told nothing, keyfold is about to call the service, and lacks its key: the
// offline embedder is there for who asks for it, and for nobody else.
func TestEmbedderHasToBeAskedForOffline(t *testing.T) {
	c, err := parseEmbedding(t, nil).Config(64, profile.Learned{})
	must.OK(t, err)
	if c.Offline || c.Model != openai.DefaultModel || c.API.BaseURL != openai.DefaultBaseURL || c.API.Dimensions != 64 ||
		c.Phrases.CacheTTL != time.Hour || c.Phrases.FoldCase || c.Redis != nil {
		t.Errorf("%+v", c)
	}
	if err := c.Usable(); err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") || !strings.Contains(err.Error(), "EMBEDDER=hash") {
		t.Errorf("without a key: %v", err)
	}
	c, err = parseEmbedding(t, map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"}).Config(64, profile.Learned{})
	if err != nil || c.Usable() != nil {
		t.Errorf("a server of one's own wants no key: %v, %v", err, c.Usable())
	}
	c, err = parseEmbedding(t, map[string]string{"EMBEDDER": "hash"}).Config(64, profile.Learned{})
	if err != nil || !c.Offline || c.Model != vector.HashModel || c.Usable() != nil {
		t.Errorf("%+v %v", c, err)
	}
}

func TestEmbeddingSettingsAreRead(t *testing.T) {
	c, err := parseEmbedding(t, map[string]string{
		"OPENAI_API_KEY": "sk-one", "OPENAI_BASE_URL": "https://embeddings.example/v1", "EMBEDDING_MODEL": "another",
		"REDIS_URL": "rediss://user:s3cret@redis.example:6380/2", "EMBEDDING_CACHE_TTL": "60", "OPENAI_TIMEOUT": "1m30s",
		"OPENAI_MAX_INPUTS": "32", "OPENAI_OMIT_DIMENSIONS": "true",
	}, "--embedding-fold-case").Config(64, profile.Learned{})
	if err != nil || c.Usable() != nil {
		t.Fatal(err, c.Usable())
	}
	if c.API.Key != "sk-one" || c.Model != "another" || c.API.Model != "another" || !c.API.OmitDimensions || c.API.MaxInputs != 32 ||
		c.API.Timeout != 90*time.Second || !c.Phrases.FoldCase || c.Phrases.CacheTTL != time.Minute {
		t.Errorf("%+v", c)
	}
	if c.Redis.TTL != time.Minute || c.Redis.Model != "another" || c.Redis.Dimensions != 64 {
		t.Errorf("%+v", c.Redis)
	}
	for _, text := range []string{c.Where(), fmt.Sprintf("%v %+v %#v %s", c, c, c, c.API.Key)} {
		if strings.Contains(text, "sk-one") {
			t.Errorf("the key shows in %s", text)
		}
	}
	if where := c.Where(); strings.Contains(where, "s3cret") || !strings.Contains(where, "redis.example:6380") || !strings.Contains(where, "embeddings.example") {
		t.Errorf("where: %s", where)
	}
}

func TestKeyFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	must.OK(t, os.WriteFile(path, []byte("  sk-of-a-file\n"), 0o600))
	c, err := parseEmbedding(t, map[string]string{"OPENAI_API_KEY_FILE": path}).Config(64, profile.Learned{})
	if err != nil || c.API.Key != "sk-of-a-file" || c.Usable() != nil {
		t.Errorf("%v %v", err, c.Usable())
	}
	_, err = parseEmbedding(t, map[string]string{"OPENAI_API_KEY_FILE": path, "OPENAI_API_KEY": "sk-one"}).Config(64, profile.Learned{})
	if err == nil || !strings.Contains(err.Error(), "keep one") || strings.Contains(err.Error(), "sk-") {
		t.Errorf("a key in both places: %v", err)
	}
	_, err = parseEmbedding(t, map[string]string{"OPENAI_API_KEY_FILE": path + "x"}).Config(64, profile.Learned{})
	if err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY_FILE") {
		t.Errorf("a file that is not there: %v", err)
	}
	must.OK(t, os.WriteFile(path, []byte(" \n"), 0o600))
	_, err = parseEmbedding(t, map[string]string{"OPENAI_API_KEY_FILE": path}).Config(64, profile.Learned{})
	if err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY_FILE") {
		t.Errorf("a file that is empty: %v", err)
	}
}

func TestEveryEmbeddingFaultAtOnce(t *testing.T) {
	_, err := parseEmbedding(t, map[string]string{
		"EMBEDDER": "magic", "EMBEDDING_CACHE_TTL": "soon", "OPENAI_TIMEOUT": "x", "OPENAI_MAX_INPUTS": "1.5",
		"REDIS_URL": "http://user:s3cret@x", "OPENAI_API_KEY": "a", "OPENAI_API_KEY_FILE": "/does/not/exist",
	}).Config(64, profile.Learned{})
	for _, name := range []string{"EMBEDDER", "EMBEDDING_CACHE_TTL", "OPENAI_TIMEOUT", "OPENAI_MAX_INPUTS", "REDIS_URL", "OPENAI_API_KEY", "OPENAI_API_KEY_FILE"} {
		if err == nil || !strings.Contains(err.Error(), name+" ") && !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s is missing in: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a password was printed: %v", err)
	}
	c, err := parseEmbedding(t, map[string]string{
		"EMBEDDER": "openai", "EMBEDDING_CACHE_TTL": "3600", "OPENAI_TIMEOUT": "0", "OPENAI_MAX_INPUTS": "4096", "REDIS_URL": "redis://x",
		"OPENAI_API_KEY": "with space", "OPENAI_API_KEY_FILE": "", "OPENAI_BASE_URL": "ftp://x",
	}).Config(0, profile.Learned{})
	if usable := c.Usable(); err == nil && usable == nil {
		t.Error("nothing was found")
	} else {
		told := fmt.Sprint(err, usable)
		for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_TIMEOUT", "OPENAI_MAX_INPUTS", "EMBEDDING_DIMENSIONS"} {
			if !strings.Contains(told, name) {
				t.Errorf("%s is missing in: %s", name, told)
			}
		}
		for _, sentence := range []string{
			"OPENAI_API_KEY holds white space or characters no key has: copy it again",
			"OPENAI_BASE_URL is no http or https address: it must look like https://api.openai.com/v1",
			"OPENAI_TIMEOUT is 0s: it must be above 0 (seconds)",
			"OPENAI_MAX_INPUTS is 4096: it must be between 1 and 2048",
			"EMBEDDING_DIMENSIONS is 0: it must be between 1 and 16384",
		} {
			if !strings.Contains(told+"\n", sentence+"\n") {
				t.Errorf("%q is missing in: %s", sentence, told)
			}
		}
		if strings.Contains(told, "with space") {
			t.Errorf("the key was printed: %s", told)
		}
	}
}

// Help shows the default of the configuration that a setting sets.
func TestHelpShowsDefaults(t *testing.T) {
	var grammar struct {
		Embedding Settings `embed:""`
	}
	var out strings.Builder
	p, err := kong.New(&grammar, settings.Defaults(&grammar), kong.Writers(&out, &out), kong.Exit(func(int) {}))
	must.OK(t, err)
	if _, err := p.Parse([]string{"--help"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--embedding-cache-ttl=1h ", "--embedding-fold-case ", "--openai-max-inputs=256 ", "--openai-timeout=10 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}

// A switch that says neither yes nor no does not hide what else is wrong.
func TestSwitchFaults(t *testing.T) {
	_, err := parseEmbedding(t, map[string]string{
		"EMBEDDING_FOLD_CASE": "x", "OPENAI_OMIT_DIMENSIONS": "y", "OPENAI_TIMEOUT": "0", "OPENAI_MAX_INPUTS": "4000",
	}).Config(64, profile.Learned{})
	for _, name := range []string{"EMBEDDING_FOLD_CASE", "OPENAI_OMIT_DIMENSIONS", "OPENAI_TIMEOUT", "OPENAI_MAX_INPUTS"} {
		if err == nil || strings.Count(err.Error(), name) != 1 {
			t.Errorf("%s is not told once: %v", name, err)
		}
	}
}

// What follows from an embedder or a key that could not be read is not told
// beside it.
func TestNoFaultFollowsFromAnother(t *testing.T) {
	for _, env := range []map[string]string{
		{"EMBEDDER": "magic"},
		{"OPENAI_API_KEY_FILE": "/does/not/exist"},
	} {
		c, err := parseEmbedding(t, env).Config(64, profile.Learned{})
		if err == nil || c.Usable() != nil {
			t.Errorf("%v: %v; %v", env, err, c.Usable())
		}
		for name := range env {
			t.Setenv(name, "openai")
		}
		t.Setenv("OPENAI_API_KEY_FILE", "")
	}
}

// A base URL without a path is told of, as most services have theirs at /v1.
func TestWarningOfTheBaseURL(t *testing.T) {
	for base, warned := range map[string]bool{
		"http://localhost:8080": true, "http://localhost:8080/": true, "http://localhost:8080/v1": false, "https://user:s3cret@host": true, "": false,
	} {
		c, _ := parseEmbedding(t, map[string]string{"OPENAI_BASE_URL": base}).Config(64, profile.Learned{})
		if text := fmt.Sprint(c.Warnings); (len(c.Warnings) > 0) != warned || strings.Contains(text, "s3cret") {
			t.Errorf("OPENAI_BASE_URL=%s: %s", base, text)
		}
	}
}
