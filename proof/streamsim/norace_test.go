//go:build !race

package streamsim

const schedulesByDefault = 20_000
