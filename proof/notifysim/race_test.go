//go:build race

package notifysim

// The race detector makes a schedule several times as dear; `make test` runs the others
// without it.
const (
	schedulesByDefault = 30
	replays            = 8
)
