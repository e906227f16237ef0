// Package rabbit connects to RabbitMQ and publishes to it: what the packages below it stand on.
//
//	Names        all names that the broker knows keyfold's things by
//	Message      one message to publish; Original is one that was delivered
//	Publisher    publishes with confirms and the mandatory flag
//	Channel      a channel on a connection of its own, for tools that look at queues
//	Dialer       makes the connections; Fault gives an error its cause and cure
//
// The packages below import each other in one direction, and all of them this one:
//
//	consume     takes events from queues and settles them
//	partition   says which worker consumes which partition
//	topology    declares exchanges, queues and bindings, and asks for them
//	deadletter  has the form of dead letters, and the tools for them
//
// The client library's recovery is not used: it keeps a channel over a reconnect without
// telling old delivery tags from new ones, so that a late acknowledgement settles another
// message.
//
// Reading order: publisher.go, link.go and confirm.go; dial.go and socket.go below them.
package rabbit
