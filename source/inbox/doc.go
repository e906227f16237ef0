// Package inbox is a durable inbox in SQLite: an event is committed here before
// anything is done with it, and stays pending until its verdict is committed.
//
//	Add      stores arrivals in one transaction and returns the new ones as
//	         deliveries; ids met before are repeats, malformed bodies go to
//	         the table dead with their reason
//	Settle   takes a delivery's verdict, never blocks; marks are committed in
//	         groups, in an order that keeps redelivery harmless (see marks)
//	Recover  redelivers, at start, the events that a stopped or killed process
//	         left pending
//
// A verdict Retry brings the event back after a growing delay, a bounded number
// of times. Attempts are counted in memory: a restart begins them anew.
//
// The package opens no file. It writes through a [Writer] that it shares with the
// store of the profiles, because it relies on the order of its marks and their
// writes. It reads through a pool of its own.
package inbox
