// Package notifysim runs notifiers through schedules: short lives of one to three of them over
// one ledger that fails, in virtual time (testing/synctest), each replayable by its
// number. It is the simulation of lease and commit; what sockets and processes do is
// shown by proof/sim and proof/soak.
//
// # What is real
//
// service/notify/notifier with its poller, its marks and its sweep, engine/notify/processor, shard,
// the laws of engine/notify, the API (service/notify/api behind source/httpapi), the chunks
// of delivery reports (service/notify/broker), sink/ledger/cache in front of the ledger in
// two of three lives, and sink/ledger/memory, which stores the decisions.
//
// # What is a model
//
//   - store: the way to the ledger. A call takes its time; it is refused, hangs, or its
//     answer is lost, and then the ledger has it, has a part of it, gets it later, or
//     does not.
//   - broker: two queues with a prefetch. What a lost connection held comes again; an
//     acknowledgement may be lost; retries and parked events wait; dead letters. Its
//     confirms to the API may be lost.
//   - clients: post an event until it is accepted and the answer arrives, and a tenth of
//     the events twice. Some cancel what they posted, before it came or while it waits, by
//     its id or its dedupe_key, through the API, which any life carries out, until it is
//     answered.
//   - merges: make one user's id another one's, by the process of some life, which may be
//     cut off between any two calls, until it is answered; also in chains, of an id of which
//     nothing is known, and while both users are decided.
//   - senders: take dispatches, refuse some, lose the confirms of others, and report
//     deliveries, failures and what users opened, late, twice and in any order.
//   - clocks: each notifier's is up to 2 s beside the others'.
//
// A notifier is killed between any two of its calls: nothing that it still does shows,
// but for the calls that are on their way.
//
// # A schedule
//
// Its number says everything ([planOf]): users with zones, quiet hours, caps and choices of
// topics of their own, events with expiries, duplicates, events that replace others, faults
// and their times, cancellations, erasures, changed preferences, a second set. Both sets have
// limits of minutes and chains of channels. After the last fault the schedule ends when no
// cancellation is left to be answered, the queues are empty, no deferral waits and no NOW is
// left to be dispatched. Then proof/notifyoracle checks all records, dispatches and states,
// and decides every record again; each NOW must be in the first dispatch of its id, because
// senders drop the others; each delivery must be what its reports come to; and what a
// cancellation's answer says has ended must not wait and not be sent. Of a merged user the
// oracle decides each id's records by that id's state until the merge, and those after it by
// the person's; nothing is left under the alias. While a schedule
// runs, what is accepted must be in a queue, an acknowledged event must have a decision,
// a claimed deferral must not be claimed again before its lease ends, and a decision
// must be made with the preferences that are in force when it is written.
//
// # What it cannot show
//
// That PostgreSQL keeps what sink/ledger/memory keeps: sink/ledgertest compares the
// ledgers, and the soak runs on PostgreSQL. A run with armed failpoints ([TestArmed])
// has hits that depend on the order of goroutines: it is not replayed by its number.
package notifysim
