//go:build !race

package sim

// What `make test` has time for; `make soak-sim` runs a million.
const (
	schedulesByDefault = 500
	deepByDefault      = 100
	replays            = 60
)
