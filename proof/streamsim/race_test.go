//go:build race

package streamsim

const schedulesByDefault = 500
