package settings

import (
	"strings"
	"testing"
)

func TestSwitches(t *testing.T) {
	for _, c := range []struct {
		env  string
		args []string
		want bool
	}{
		{"", nil, true}, // the default
		{"false", nil, false},
		{"No", nil, false},
		{"1", nil, true},
		{"false", []string{"--batch-enabled"}, true},
		{"true", []string{"--no-batch-enabled"}, false},
		{"true", []string{"--batch-enabled=false"}, false},
	} {
		config, err := parse(t, map[string]string{"EMBEDDING_BATCH_ENABLED": c.env}, c.args...).Config()
		if err != nil || config.Shard.Batching != c.want {
			t.Errorf("%q %v: %v, %v", c.env, c.args, config.Shard.Batching, err)
		}
	}
}

// A switch that says neither yes nor no does not hide what else is wrong.
func TestSwitchFaults(t *testing.T) {
	_, err := parse(t, map[string]string{"EMBEDDING_BATCH_ENABLED": "t", "EMBEDDING_DIMENSIONS": "many"}).Config()
	if err == nil || !strings.Contains(err.Error(), `EMBEDDING_BATCH_ENABLED is "t"`) || !strings.Contains(err.Error(), "EMBEDDING_DIMENSIONS") {
		t.Errorf("%v", err)
	}
	_, err = parseEmbedding(t, map[string]string{
		"EMBEDDING_FOLD_CASE": "x", "OPENAI_OMIT_DIMENSIONS": "y", "OPENAI_TIMEOUT": "0", "OPENAI_MAX_INPUTS": "4000",
	}).Config(64)
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
		c, err := parseEmbedding(t, env).Config(64)
		if err == nil || c.Usable() != nil {
			t.Errorf("%v: %v; %v", env, err, c.Usable())
		}
		for name := range env {
			t.Setenv(name, "openai")
		}
		t.Setenv("OPENAI_API_KEY_FILE", "")
	}
}
