// Package sim runs keyfold through schedules: short lives of one to three workers
// beside a broker and a store that fail, in virtual time (testing/synctest), each
// replayable by its number.
//
// # What is real
//
// The worker is service/profile/worker, the daemon itself, with its order of stopping, its pauses
// and its waiting for phrases. Only its sockets, its store and its phrases are the
// model's. So source/rabbit with the AMQP library (sessions, leases, acknowledgements,
// retries, dead letters, reconnects), shard, service/profile/pipeline, engine/profile/processor, engine/breaker
// and source/catalog are real. A worker that is told to stop must do so within its
// shutdown timeout.
//
// # What is a model
//
//   - network: byte streams with a latency per write, that can be cut or go silent.
//   - broker: speaks AMQP 0-9-1 to the library. A queue with prefetch, redelivery of
//     what a lost channel had not acknowledged, delay queues, a dead-letter queue,
//     confirms; an acknowledgement of a tag that is not out ends the channel, as a
//     broker does it.
//   - phrases: vectors that come late or not at all, now and then.
//   - store: versioned documents, of which a majority learns later; reads see what
//     the majority has, and a failover takes back what it has not.
//
// In a deep schedule the store is real, too: sink/mongodb and the driver talk over
// the model's network to the test server of internal/testserver/mongotest, whose replication
// stalls and whose writes are taken back. It costs more and is checked in the end
// only.
//
// # A schedule
//
// Its number says everything: users, events, duplicates, poison, sizes, latencies,
// faults and their times ([planOf]). What a running schedule decides (a latency, a
// refused write) is drawn from the number and from what the decision is about, not
// from one sequence, so that goroutines that swap their turns within one instant do
// not change what follows.
//
// After the last fault nothing fails any more, and the schedule ends when the queues are
// empty. Then each profile must be what proof/oracle folds one event at a time, the
// dead letters must be the poison, and nothing else may be left anywhere. Besides,
// whenever a broker's copy of an event goes away, the event must be in a profile
// that a majority has, or in another queue, or be one that is dropped by the law; and
// no worker may have two writes of one user in flight.
//
// # Replays
//
// What waits does so for a time of its own, to the nanosecond, so that hardly any two
// goroutines wake in one instant, and 95 to 99 of 100 schedules do the same again,
// event by event (TestReplay). The rest differ where goroutines of one worker act
// in one instant and the Go scheduler orders them; a failure found there may take a
// few replays to show. Deep schedules differ more often: the driver draws its own
// pauses.
//
// # What it cannot show
//
// That a machine without power, RabbitMQ or a MongoDB replica set behave as the
// models do. Processes, sockets and the test servers' own failures are proof/soak's.
package sim
