// Package memory keeps profiles in memory: for tests, benchmarks and replays
// that compare a store with a computation.
//
// It is a store like any other, with a true compare-and-swap, and not a
// stand-in: everything sinktest asks of a database holds here, durability
// excepted.
package memory
