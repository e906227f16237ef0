// Package index keeps the vectors of a catalogue in memory and finds the products nearest
// to a vector, under filters, while products are added, changed and removed.
//
// Few products are all looked at. Of many, those are looked at whose codes, of one bit a
// component, are most like the query's. docs/decisions/016 has the measurements, and why
// it is no graph.
package index
