//go:build !race

package sim

// What `make test` has time for; `make soak-sim` runs 100,000 and more.
const (
	schedulesByDefault = 400
	replays            = 60
)
