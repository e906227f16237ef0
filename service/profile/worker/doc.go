// Package worker is the daemon: it consumes events from RabbitMQ, batches them in
// windows per user, folds them into profiles, and acknowledges what was written.
//
// [Worker.Run] starts from the store towards the broker and stops the other way
// round: no event is consumed before it can be written, and every event that was
// consumed is written and acknowledged before the connections it needs are closed.
// The caller supplies the store, the phrase vectors and the network ([Ports]), so
// that `keyfold work`, the simulation and the benchmarks run the same code.
package worker
