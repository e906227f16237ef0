//go:build !race

package notifysim

// What `make test` has time for; CI runs 3,000, and `make soak-sim` 100,000 and more.
const (
	schedulesByDefault = 120
	replays            = 12
)
