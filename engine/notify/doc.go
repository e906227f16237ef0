// Package notify is keyfold's second application: services of a shop post
// notifications, and for each one it decides NOW (send it), LATER (decide it
// again at a given time) or NEVER (do not send it), and records why.
//
//	Parse -> Notification            the strict parser, parse.go
//	Set, Preferences, State          the input of a decision besides the event
//	Decide, DecideDigest -> Record   the laws: pure functions, decide.go, digest.go
//	State.Fold, Append, ReadState    the state is a fold over records, fold.go, codec.go
//	Explain, Record as JSON          explain.go, json.go
//	Ledger, Deferrals, Dispatcher    the ports, ports.go
//
// Package rule makes the rules of a Set, package quiet knows local time, package
// similar compares texts, package processor (the application) takes deliveries
// through load, decide, commit, dispatch and settle.
package notify
