//go:build !race

package history

const histories = 1000
