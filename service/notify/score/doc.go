// Package score reads the taste terms of notifications: how near the embedded text is
// to the vector of the user's profile.
//
// The term is an aid. No decision waits for it longer than [Config.Patience], and while
// the embedding API or the profile store is away no decision waits at all: after some
// failures in a row it is left alone, and one call at a time looks whether it is back.
// The answer says why a term is absent.
//
// A profile is read before its user's text is embedded, so that a text leaves only where
// it can be compared. Texts that are embedded at the same time share a request, and
// vectors and profiles are kept in memory: a text for many users is embedded once.
package score
