// Package rabbit consumes events from RabbitMQ and publishes messages to it.
//
//	Setup        declares exchange, queues and bindings; idempotent
//	Consumer     fills chunks with messages and acknowledges what was settled
//	Chunk        an application's: it parses messages and hands them on
//	Publisher    publishes with confirms and the mandatory flag
//	DelayQueues  keeps events that are tried again in queues of the broker
//	Channel      a channel on a connection of its own, for tools that look at queues
//
// A consumer works in sessions: one connection, one channel, one generation of
// delivery tags. A session ends with a lost connection, a deleted queue or a broker
// that restarts. Then the broker takes back all messages that were not acknowledged,
// verdicts that come late are dropped and counted, and the supervisor opens the next
// session. The client library's recovery is not used: it keeps a
// channel over a reconnect without telling old delivery tags from new ones, so
// that a late acknowledgement settles another message.
//
// Within a session the prefetch is divided among several channels, since the
// broker pays for an acknowledgement out of order with a walk over what the
// channel holds; see channel.go.
//
// Where users are spread over partition queues, workers share these: balance.go keeps a
// worker's part, owners.go reckons it, number.go and layout.go ask the broker for what
// that takes, and partition.go consumes one queue.
//
// Reading order: one delivery's way is reader.go, settler.go, acks.go. An event
// that is tried again or given up goes on in retry.go and copies.go, which puts
// confirmed copies in the place of originals: into delay queues (delay.go) or to
// the dead letters (dead_letters.go; package deadletter has their form). What
// opens and ends sessions: consumer.go, supervisor.go, session.go, channel.go. On
// the other side: publisher.go, link.go and confirm.go.
package rabbit
