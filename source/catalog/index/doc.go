// Package index keeps the vectors of a catalogue in memory and finds the products nearest
// to a vector, under filters, while products are added, changed and removed.
package index
