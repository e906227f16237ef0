// Package streamsim holds the law of marks against random schedules: workers that read
// streams, crash, go on beside their successors, begin again at lost or rewound positions,
// and send copies of events through queues, on profiles that keep one to four ids.
//
// The engine and the store are those of the product. Each flush is a coroutine that stops at
// every call of a port, so that a schedule is a sequence of steps, replayed by its number.
package streamsim
