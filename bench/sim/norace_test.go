//go:build !race

package sim

const (
	schedulesByDefault = 10_000
	deepByDefault      = 1000
	replays            = 300
)
