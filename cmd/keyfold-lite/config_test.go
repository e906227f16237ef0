package main

import (
	"strings"
	"testing"

	"keyfold/cmd/cli"
)

func TestConfig(t *testing.T) {
	t.Setenv("EMBEDDING_WINDOW", "3") // no setting
	t.Setenv("EMBEDDING_MODEL", "m")  // one of keyfold
	t.Setenv("WORKER_SHARDS", "3")
	warning := "keyfold-lite: EMBEDDING_WINDOW: unknown setting: did you mean EMBEDDING_BATCH_WINDOW?\n"
	code, out, errs := lite(t, "", "config", "check")
	if code != 0 || out != "The settings are valid.\n" || errs != warning {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, _ = lite(t, "", "config", "show", "--data=folder")
	for _, want := range []string{
		"KEYFOLD_DATA                --data                     folder\n", "WORKER_SHARDS               environment                3\n",
		"HTTP_ADDR                   default                    127.0.0.1:7080\n",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q is missing in\n%s", code, want, out)
		}
	}
	code, _, errs = lite(t, "", "config", "check", "--http-addr=0.0.0.0:1", "--log-level=loud", "--shards=-1")
	want := warning + `keyfold-lite: nothing was done:
--log-level (LOG_LEVEL) is "loud": it must be debug, info, warn or error
--shards (WORKER_SHARDS) is -1: it must be between 1 and 1024, or 0 for the number of processors
--http-addr (HTTP_ADDR) is "0.0.0.0:1": only loopback addresses`
	if code != cli.ExitUsage || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 5 {
		t.Errorf("exit code %d, got\n%swant\n%s", code, errs, want)
	}
}
