//go:build !race

package sim

// What `make test` has time for; `make soak-sim` runs a million.
const (
	schedulesByDefault = 2000
	deepByDefault      = 200
	replays            = 60
)
