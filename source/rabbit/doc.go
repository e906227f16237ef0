// Package rabbit is the way in from RabbitMQ and out to it.
//
//	Setup        declares exchange, queues and bindings; idempotent
//	Consumer     delivers parsed events and acknowledges what was settled
//	Publisher    publishes with confirms and the mandatory flag
//	DelayQueues  has failed events wait at the broker
//
// A consumer works in sessions: one connection, one channel, one generation of
// delivery tags. Whatever ends a session (a lost connection, a deleted queue, a
// broker that restarts), the broker takes back all that was not acknowledged,
// verdicts that come late are dropped and counted, and a supervisor of its own
// opens the next session. The client library's recovery is not used: it keeps a
// channel over a reconnect without telling old delivery tags from new ones, so
// that a late acknowledgement settles another message.
//
// Within a session the prefetch is divided among several channels, since the
// broker pays for an acknowledgement out of order with a walk over what the
// channel holds; see channel.go.
//
// Reading order: consumer.go, supervisor.go, session.go, channel.go, reader.go,
// settle.go, acks.go, then retry.go, delay.go, burial.go and deadletter.go; on
// the other side publisher.go, link.go and confirm.go.
package rabbit
