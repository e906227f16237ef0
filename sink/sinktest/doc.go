// Package sinktest is the conformance suite of the profile stores: what
// [profile.Profiles] and [profile.Eraser] promise, held against an
// implementation. Every store's own tests call [Run].
//
// The races are decided by outcomes, never by the clock: each test knows what
// must be in the store once all answers are in.
package sinktest
