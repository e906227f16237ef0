package sim

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Schedules are short and leave much behind; the memory is small either way.
	debug.SetGCPercent(800)
	goleak.VerifyTestMain(m)
}
