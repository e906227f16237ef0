// Package notifier joins the packages that decide notifications: shard holds a user's
// deliveries together, engine/notify/processor decides them, a ledger stores the
// decisions and a dispatcher hands each NOW to the senders.
//
// Beside what [Notifier.Submit] brings, it decides deferrals whose time has come
// (poll.go), and hands over again what was decided NOW and not confirmed (sweep.go).
package notifier
