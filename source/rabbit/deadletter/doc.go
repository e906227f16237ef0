// Package deadletter is the dead-letter queue: the form of its letters, and the
// tools that read, replay and remove them.
//
//	Queue   writes the letters of a worker
//	Scan    reads the letters, and removes those it is told to
//	Letter  one letter as read; Replay makes its original's message again
package deadletter
