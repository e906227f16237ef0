//go:build race

package notifications

// The race detector makes weeks several times as dear, and one goroutine makes all of
// them: the pairs of one are compared.
const weeks = 1
