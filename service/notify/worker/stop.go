package worker

import (
	"context"

	"keyfold/internal/shutdown"
	"keyfold/service/daemon"
)

// lifecycle stops in order: see [daemon.Lifecycle]. Run says what is consumed.
func (w *Worker) lifecycle() *daemon.Lifecycle {
	l := &daemon.Lifecycle{
		Control: &w.control, Clock: w.ports.Clock, Breaker: w.breaker, Windows: w.notifier.Router,
		Closing: "deciding what it holds",
		Servers: []shutdown.Peer{
			{Name: "PostgreSQL", Package: "keyfold/sink/ledger/postgres"},
			{Name: "MongoDB", Package: "keyfold/sink/mongodb"},
			{Name: "RabbitMQ", Package: "keyfold/source/rabbit"},
		},
		Drain: w.notifier.Stop,
		Connections: []daemon.Connection{
			{Name: "the publisher of dead letters", Close: w.publisher.Close},
			{Name: "the publisher of dispatches", Close: w.dispatches.Close},
			{Name: "the ledger", Close: func(context.Context) error { return w.ledger.Close() }},
		},
	}
	for _, in := range w.inputs {
		l.Connections = append(l.Connections, daemon.Connection{Name: "the delays", Close: in.retries.Close})
	}
	return l
}
