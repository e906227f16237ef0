//go:build race

package sim

// The race detector makes a schedule several times as dear. What it looks for shows
// in few of them; `make test` runs the others without it.
const (
	schedulesByDefault = 40
	deepByDefault      = 4
	replays            = 8
)
