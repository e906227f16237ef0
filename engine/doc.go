// Package engine holds keyfold's words and laws: events and how strictly they
// are read, weights, the decayed fold, the ids that make a redelivery harmless,
// and the ports a store and a source of vectors implement.
//
// It is the leaf of the import graph: it knows no broker and no database. The laws
// are pure functions of their arguments: a law takes the time as a parameter, and
// only [Now] reads the clock, for callers that need the processing time. So every
// law can be tested against the one-at-a-time reference ([Config.FoldOne]).
package engine
