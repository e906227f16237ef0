// Package engine is what both applications stand on: deliveries' outcomes and how a
// source settles them, the strict JSON reader and its timestamps, the kinds of errors and
// the reasons of refusals, slots of users, traces, and the vectors that a source resolves.
//
// It is the leaf of the import graph: it knows no broker, no database and neither
// application. Only [Now] reads the clock.
package engine
