// Package simulate decides recorded notifications anew by a candidate set of rules, and
// counts what would change. It reads and stores nothing.
//
//	simulate.go  the users of a ledger, one after the other
//	user.go      one user's turns on the recorded clock
//	report.go    what is counted, and how it is printed
//
// A turn is decided at its recorded time, with its recorded preferences and cosine. A
// deferral that the candidate makes as it was recorded has its next turn when the recorded
// one was decided; another one when it is due. What is assumed is that senders and users
// would have behaved the same.
package simulate
