//go:build race

package sim

// The race detector makes a schedule several times as dear; `make test` runs the others
// without it.
const (
	schedulesByDefault = 60
	replays            = 20
)
