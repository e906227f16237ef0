//go:build race

package quiet

// The race detector makes a walk several times as dear, and one goroutine makes all
// of them: one in eight is walked, and clocks are looked at less often.
const (
	every = 8
	look  = 6 * day
)
