// Package consume takes events from RabbitMQ's queues and settles them.
//
//	Consumer     fills chunks with messages and acknowledges what was settled
//	Chunk        an application's: it parses messages and hands them on
//	DelayQueues  keeps events that are tried again in queues of the broker
//	DeadLetters  stores those that are given up; package deadletter has one
//
// A consumer works in sessions: one connection, one generation of delivery tags. A session
// ends with a lost connection, a deleted queue or a broker that restarts. Then the broker takes
// back all messages that were not acknowledged, verdicts that come late are dropped and
// counted, and the supervisor opens the next session.
//
// Within a session the prefetch is divided among several channels, since the
// broker pays for an acknowledgement out of order with a walk over what the
// channel holds; see channel.go.
//
// Where users are spread over partition queues, workers share these. Package partition says
// how; balance.go keeps a worker's part, and partition_consumer.go consumes one queue.
//
// Reading order: one delivery's way is reader.go, settler.go, acks.go. An event
// that is tried again or given up goes on in retry.go and copies.go, which puts
// confirmed copies in the place of originals: into delay queues (delay.go) or to
// the dead letters (dead_letters.go). What opens and ends sessions: consumer.go,
// supervisor.go, session.go, channel.go.
package consume
