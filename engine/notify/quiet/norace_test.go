//go:build !race

package quiet

// Every transition is walked. To find them, clocks are looked at each day.
const (
	every = 1
	look  = day
)
