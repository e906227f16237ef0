// Package processor is the notification application proper: it takes deliveries,
// which are new events or deferrals whose time has come, through these steps:
//
//	load      state, preferences and event keys of all users, in one call (load.go)
//	plan      order a user's deliveries, decide each, fold each record (plan.go)
//	commit    state, keys, records and deferrals, all or nothing per user (commit.go)
//	dispatch  hand each NOW to the senders, then queue its mark (dispatch.go)
//	settle    tell each delivery's source what became of it (settle.go)
//
// [Processor.Apply] takes several users at once, so that a flush costs one read
// and one write for all of them. flush.go has the rounds: a user whose version
// moved goes round again, and the others are done.
//
// A replay ([Config.Replay]) decides a file of past events on the events' own
// clock: before each event it decides the user's own deferrals that are due, and
// [Processor.FinishReplay] decides those that are left (replay.go). The records do
// not depend on how the events were grouped, nor on where a process was killed.
package processor
