// Package profile holds the words and laws of profiles: events and how strictly they
// are read, weights, the decayed fold, the ids that make a redelivery harmless, and the
// ports that a store implements.
//
// The laws are pure functions of their arguments: a law takes the time as a parameter.
// So every law can be tested against the one-at-a-time reference ([Config.FoldOne]).
package profile
