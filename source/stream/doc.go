// Package stream speaks RabbitMQ's stream protocol: a client of what keyfold needs of it.
//
//	Conn          one connection to one node; [Dial] makes it, [DialLeader] to a stream's leader
//	Subscription  brings a stream's chunks, as many as credit was given for
//	Chunk         messages that were stored together, with the identity of their chunk
//	Message       one AMQP 1.0 message: its body, and its application properties
//	Publisher     sends messages with publishing ids, by which the broker drops repeats
//
// A connection has one goroutine that reads its socket. It calls nothing of the caller's:
// each subscription and each publisher has a goroutine that does. A chunk that waits for
// its handler was granted by a credit, and one without a credit ends the connection, so
// that what waits is bounded. All errors of a connection are told at its end, on each of
// its subscriptions and publishers too; a new one takes its place, not a repaired one.
//
// The official library drops the timestamps of chunks, which together with the first offset
// and the CRC are a chunk's identity, and hands on chunks with a wrong CRC.
//
// Package position, below, knows which delivered offsets are settled.
//
// Reading order: dial.go, conn.go, call.go and dispatch.go; subscription.go, chunk.go and
// message.go; publisher.go and publish.go.
package stream
