package settings

import (
	"errors"
	"strings"
	"testing"

	"keyfold/engine"
)

// The rooms name their fields; the operator reads the variables.
func TestFaultsOfTheRoomsNameVariables(t *testing.T) {
	_, err := parse(t, map[string]string{
		"EMBEDDING_BATCH_WINDOW": "0", "EMBEDDING_BATCH_MAX_DELAY": "48h", "EMBEDDING_BATCH_MAX_SIZE": "0",
		"WORKER_PREFETCH": "0", "WORKER_HOLD_MAX": "0", "WORKER_MAX_RETRIES": "101", "WORKER_RETRY_DELAY": "0",
		"EMBEDDING_DIMENSIONS": "0", "EMBEDDING_DECAY_LAMBDA": "-1", "EMBEDDING_HISTORY": "x",
	}).Config()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"EMBEDDING_BATCH_WINDOW is 0s: it must be above 0 and at most 24h0m0s (to flush each item at once, set EMBEDDING_BATCH_ENABLED to false)",
		"EMBEDDING_BATCH_MAX_DELAY is 48h0m0s: it must be at least EMBEDDING_BATCH_WINDOW (0s) and at most 24h0m0s",
		"EMBEDDING_BATCH_MAX_SIZE is 0: it must be at least 1",
		"WORKER_PREFETCH is 0: it must be at least 1",
		"EMBEDDING_DIMENSIONS is 0: it must be between 1 and 16384",
		"EMBEDDING_DECAY_LAMBDA is -1: it must be a finite number of at least 0 (per day)",
		`EMBEDDING_HISTORY is "x": it must be "mass" or "unit"`,
		"WORKER_MAX_RETRIES is 101: it must be between 0 and 100",
		"WORKER_RETRY_DELAY is 0s: it must be between 1 and 60000 (milliseconds)",
		"WORKER_HOLD_MAX is 0s: it must be between 1 s and 900 s",
	} {
		if !strings.Contains(err.Error()+"\n", want+"\n") {
			t.Errorf("the faults do not say %q:\n%v", want, err)
		}
	}
}

// Settings that are bound to nothing are found by their name; values, paths and what errors
// are known by stay as they are.
func TestFaultsKeepValuesAndKinds(t *testing.T) {
	fault := engine.ConfigurationError("odd", errors.New(`Dimensions is 0, History is "a \" History": read /etc/History, History=mass, Histories`))
	err := Named(&Engine{}, nil, fault)
	const want = `EMBEDDING_DIMENSIONS is 0, EMBEDDING_HISTORY is "a \" History": read /etc/History, EMBEDDING_HISTORY=mass, Histories`
	if err.Error() != want || engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != "odd" || !errors.Is(err, fault) {
		t.Errorf("%v, %v, %s", err, engine.KindOf(err), engine.ReasonOf(err))
	}
}
