//go:build !race

package notifications

// weeks is how many are compared: more than 100,000 pairs.
const weeks = 3
