package worker

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
	"keyfold/source/catalog"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/topology"
)

// Config holds a worker's settings.
type Config struct {
	settings.Config // folding, windows, the store's breaker, retries, shutdown timeout

	DSN      string // of the broker
	Names    rabbit.Names
	Identity rabbit.Identity
	// QueueType is checked against the queue at the start of each session; "" skips
	// the check.
	QueueType topology.QueueType
	// NoPriorities is checked with it.
	NoPriorities bool
	// Partitions has the worker consume partition queues; nil: the one queue.
	Partitions *consume.Partitions
	// Streams has the worker read streams too; nil: it reads none.
	Streams *Streams
	// PhraseTimeout is how long a search waits for its phrase's vector before it
	// joins its user's window: see [Prefetcher]. 0 means that phrases are resolved
	// without waiting, and no search waits.
	PhraseTimeout time.Duration
	// About is logged at the start, beside the settings above.
	About []slog.Attr
}

// Streams says where the streams are.
type Streams struct {
	URI string // of the stream protocol; see [stream.Config]
	// Store names the database of the profiles: the workers of one database share the streams,
	// and those of another one read all of them too.
	Store string
}

// Ports connect a worker to the servers it uses.
type Ports struct {
	// OpenStore connects to the store and checks that it is set up. Run calls it
	// again, after a pause, until it succeeds or returns a configuration fault.
	OpenStore func(context.Context) (Store, error)
	// Phrases resolves search phrases; nil means the offline embedder.
	Phrases engine.Vectors[string]
	// Broker returns how to connect to the broker for a purpose ("consumer",
	// "publisher", "retries" or "streams"); nil means the defaults.
	Broker func(purpose string) rabbit.Timing
	// Tracing follows events; nil: they are not followed.
	Tracing Tracing
	Log     *slog.Logger
	// Clock bounds the shutdown; nil means a new one with the shutdown timeout.
	Clock *shutdown.Clock
}

// Tracing tells another program what happens to an event.
type Tracing interface {
	// Received may replace traces and settlers of deliveries.
	Received(context.Context, []profile.Delivery)
	// Flush is [processor.Ports.OnFlush].
	Flush(context.Context, []profile.Batch) (context.Context, func())
	Profiles(profile.Profiles) profile.Profiles
}

// Store holds the profiles and the product catalogue. Run closes the store it
// opened.
type Store interface {
	profile.Profiles
	catalog.Store
	// Probe makes one write that is acknowledged as the writes of profiles are.
	Probe(context.Context) error
	Close() error
}
