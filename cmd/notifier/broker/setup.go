package broker

import (
	"context"
	"time"

	"keyfold/engine/notify"
	"keyfold/source/rabbit"
)

// Topology is what an installation decides of its queues.
type Topology struct {
	// QueueType is that of the input queues and their dead letters. The queues of
	// dispatches are quorum queues.
	QueueType rabbit.QueueType
	// RetryDelays are the delays to have queues for; see [rabbit.RetryDelays].
	RetryDelays []time.Duration
}

// Setup declares exchanges, queues and bindings, as often as it is called. Errors are
// those of [rabbit.Setup].
func Setup(ctx context.Context, dsn string, t Topology) error {
	return rabbit.Setup(ctx, dsn, t.parts()...)
}

func (t Topology) parts() (parts []rabbit.Topology) {
	for _, names := range Inputs() {
		parts = append(parts, rabbit.Topology{Names: names, QueueType: t.QueueType, RetryDelays: t.RetryDelays})
	}
	for _, c := range notify.Channels {
		parts = append(parts, rabbit.Topology{Names: dispatches(c), QueueType: rabbit.Quorum})
	}
	return parts
}
