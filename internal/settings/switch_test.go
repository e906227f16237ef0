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
}
