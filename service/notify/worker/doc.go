// Package worker is the daemon of notifications: it consumes events from RabbitMQ,
// decides them, stores the decisions in a ledger, publishes each NOW for the senders
// and acknowledges the event.
//
// [Worker.Run] starts from the ledger towards the broker and stops the other way
// round: no event is consumed before it can be decided, and every event that was
// consumed is decided and acknowledged before the connections it needs are closed.
//
// Two queues bring events, urgent and bulk, and the ledger brings deferrals that are
// due. All go to one router, whose room is first come, first served: see [Size] for
// how urgent events always find some.
package worker
