// Package processor is keyfold's first application: it turns closed windows of user
// events into profiles.
//
// [Engine.Apply] takes several users' batches at once, so that a flush costs
// one read and one write round trip for all of them. flush.go has the rounds, and
// each step has its file:
//
//	load     profiles the cache does not hold, in one call
//	screen   erased users, duplicates, events past the horizon
//	resolve  each distinct product and phrase once
//	fold     each user's new events into one profile
//	swap     all profiles in one call, each under its version
//	settle   each delivery with its own outcome
//
// Users whose version moved go round again; the others are done.
package processor
