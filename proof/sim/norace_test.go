//go:build !race

package sim

// What `make test` has time for; CI runs 10,000, and `make soak-sim` a million.
const (
	schedulesByDefault = 150
	deepByDefault      = 25
	replays            = 12
)
