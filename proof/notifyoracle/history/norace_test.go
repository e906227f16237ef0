//go:build !race

package history

const histories = 2000
