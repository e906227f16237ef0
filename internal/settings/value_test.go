package settings

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"keyfold/internal/testserver/must"
)

// Help shows the default of the configuration that a setting sets.
func TestHelpShowsDefaults(t *testing.T) {
	var grammar struct {
		Settings Engine `embed:""`
	}
	var out strings.Builder
	p, err := kong.New(&grammar, Defaults(&grammar), kong.Writers(&out, &out), kong.Exit(func(int) {}))
	must.OK(t, err)
	if _, err := p.Parse([]string{"--help"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"--dimensions=1536 ", "--weight-search=0.7 ", "--history=mass ", "--idempotency-window=24h ", "--batch-window=5 ", "--[no-]batch-enabled ",
		"--memory-limit=512M ", "--retry-delay=5000 ", "--shards=0 ", "--event-types=NAME=WEIGHT,...", "--learned=N:GENERATION",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}

// What is given wins over the default, also where it is the zero value.
func TestGivenZeroes(t *testing.T) {
	c, err := parse(t, map[string]string{"WORKER_MAX_RETRIES": "0", "EMBEDDING_DECAY_LAMBDA": "0"}).Config()
	if err != nil || c.Retry.Attempts != 0 || c.Processor.Lambda != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
