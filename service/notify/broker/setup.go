package broker

import (
	"context"
	"time"

	"keyfold/engine/notify"
	"keyfold/source/rabbit/topology"
)

// Topology is what an installation decides of its queues.
type Topology struct {
	// QueueType is that of the input queues and their dead letters. The queues of
	// dispatches are quorum queues.
	QueueType topology.QueueType
	// RetryDelays are the delays to have queues for; see [rabbit.RetryDelays].
	RetryDelays []time.Duration
}

// Setup declares exchanges, queues and bindings, as often as it is called. Errors are
// those of [topology.Setup].
func Setup(ctx context.Context, dsn string, t Topology) error {
	return topology.Setup(ctx, dsn, t.parts()...)
}

func (t Topology) parts() (parts []topology.Config) {
	for _, names := range Inputs() {
		parts = append(parts, topology.Config{Names: names, QueueType: t.QueueType, RetryDelays: t.RetryDelays})
	}
	for _, c := range notify.Channels {
		parts = append(parts, topology.Config{Names: dispatches(c), QueueType: topology.Quorum})
	}
	return parts
}
