package app

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
	"keyfold/source/stream"
)

// QueueFlags are the settings of the worker's queues at the broker.
type QueueFlags struct {
	Type       settings.Value[string]        `name:"rabbitmq-queue-type" env:"RABBITMQ_QUEUE_TYPE" words:"classic,quorum" help:"classic, or quorum for clusters. Not set: classic for one queue, quorum for partitions." group:"servers" for:"queue"`
	Partitions settings.Value[int]           `name:"partitions" env:"RABBITMQ_PARTITIONS" help:"Queues that the users are spread over, up to 64; 0: one queue. Not set: setup keeps the number that the broker has." group:"servers" for:"partitions"`
	Priorities settings.Switch               `name:"priorities" env:"RABBITMQ_PRIORITIES" negatable:"" help:"Have a classic queue know priorities, which costs the broker CPU." group:"servers" for:"priorities"`
	Streams    settings.Value[int]           `name:"streams" env:"RABBITMQ_STREAMS" help:"Streams that the users are spread over, a power of two up to 64: setup makes them, publishers use them, workers read them beside the queue. 0: none." group:"servers" for:"streams"`
	StreamURI  settings.Value[string]        `name:"rabbitmq-stream-uri" env:"RABBITMQ_STREAM_URI" help:"rabbitmq-stream:// or rabbitmq-stream+tls:// address. Not set: RABBITMQ_DSN's host, at the port of streams." group:"servers" for:"streams"`
	MaxAge     settings.Value[time.Duration] `name:"rabbitmq-stream-max-age" env:"RABBITMQ_STREAM_MAX_AGE" help:"How long a stream keeps its events." group:"servers" for:"stream-age"`
	Only       settings.Value[partitionList] `name:"worker-partitions" env:"WORKER_PARTITIONS" help:"Partitions this worker consumes, such as 0-7,12. Not set: all, spread over the workers, which needs RabbitMQ 4.0." group:"worker" for:"partitions-of-worker"`

	queues     Queues // what [settings.Read] sets
	priorities bool
}

// Queues is what [QueueFlags] amount to.
type Queues struct {
	Type         topology.QueueType // "": classic for one queue, quorum for partitions
	Partitions   int                // 0: one queue
	AsTheyAre    bool               // no number of partitions is set: setup keeps the broker's
	NoPriorities bool
	Only         []int // the partitions of this worker, ascending; nil: all
	Streams      int   // 0: none
	StreamURI    string
	StreamMaxAge time.Duration
}

// Bind binds each setting to its place in a default configuration.
func (f *QueueFlags) Bind() {
	f.queues = Queues{}
	f.priorities = true
	f.Type.Bind((*string)(&f.queues.Type))
	f.Partitions.Bind(&f.queues.Partitions)
	f.Priorities.Bind(&f.priorities)
	f.Only.Bind((*partitionList)(&f.queues.Only))
	f.queues.StreamMaxAge = topology.DefaultStreamMaxAge
	f.Streams.Bind(&f.queues.Streams)
	f.StreamURI.Bind(&f.queues.StreamURI)
	f.MaxAge.Bind(&f.queues.StreamMaxAge)
}

// Queues reads and checks the settings; the error names every fault with the variable
// to change.
func (f QueueFlags) Queues() (Queues, error) {
	f.Bind()
	fault := settings.Read(&f)
	q := f.queues
	q.NoPriorities, q.AsTheyAre = !f.priorities, !f.Partitions.Given()
	t := topology.Config{Partitions: q.Partitions, QueueType: q.Type, Streams: q.Streams, StreamMaxAge: q.StreamMaxAge}
	f.Type.Bind((*string)(&t.QueueType))
	f.Partitions.Bind(&t.Partitions)
	f.Streams.Bind(&t.Streams)
	return q, errors.Join(fault, settings.Named(&f, &t, t.Validate()))
}

// TypeOfOne returns the type of a queue that has no partitions.
func (q Queues) TypeOfOne() topology.QueueType {
	if q.Type == "" {
		return topology.Classic
	}
	return q.Type
}

// WorkerType returns the type of the queues that the worker consumes.
func (q Queues) WorkerType() topology.QueueType {
	if q.Type == "" && q.Partitions > 0 {
		return topology.Quorum
	}
	return q.TypeOfOne()
}

// Message returns how the events of publishers that know the user go to the workers.
func (q Queues) Message() func(body []byte, event *profile.Event) rabbit.Message {
	if q.Streams > 0 {
		return rabbit.DefaultNames().StreamMessage
	}
	if q.Partitions > 0 {
		return rabbit.DefaultNames().SlotMessage
	}
	return rabbit.DefaultNames().EventMessage
}

// CheckQueues looks whether the broker has queues for what is published by
// RABBITMQ_PARTITIONS. It returns the number of partitions that the broker has.
func (a *App) CheckQueues() (partitions int, err error) {
	names, set := rabbit.DefaultNames(), a.Queues.Partitions
	partitions, err = topology.CountPartitions(a.Ctx, a.Servers.RabbitMQ, names)
	if err == nil && partitions == 0 {
		if set > 0 {
			return 0, fmt.Errorf("RABBITMQ_PARTITIONS is %d, and the broker is set up for one queue: run `keyfold setup --partitions %d`, or leave RABBITMQ_PARTITIONS unset", set, set)
		}
		_, err = rabbit.Depth(a.Ctx, a.Servers.RabbitMQ, names.Queue)
	}
	return partitions, BrokerUnreached(err)
}

// StreamsURI returns where the streams are: without a setting, at the broker's host.
func (a *App) StreamsURI() string { return cmp.Or(a.Queues.StreamURI, a.Servers.RabbitMQ) }

// StreamsClient returns how a tool connects to the streams.
func (a *App) StreamsClient() stream.Config {
	return stream.Config{URI: a.StreamsURI(), Name: a.Identity("tool").Connection("streams")}
}

// CheckWorker judges the settings that only a worker reads.
func (q Queues) CheckWorker() error {
	if q.Only != nil && q.Partitions == 0 {
		return errors.New("WORKER_PARTITIONS is set, and RABBITMQ_PARTITIONS is not: the worker would consume the one queue; set RABBITMQ_PARTITIONS to the number of partitions, or leave WORKER_PARTITIONS unset")
	}
	return nil
}

// partitionList is a list of numbers and ranges of numbers below [rabbit.MaxPartitions].
type partitionList []int

// UnmarshalText reads a list such as 0-7,12; an empty one is nil.
func (l *partitionList) UnmarshalText(text []byte) error {
	*l = nil
	if len(text) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		first, err := strconv.Atoi(low)
		last, lastErr := strconv.Atoi(high)
		if errors.Join(err, lastErr) != nil || first > last || first < 0 || last >= rabbit.MaxPartitions {
			return fmt.Errorf("numbers from 0 to %d and ranges of them, such as 0-7,12", rabbit.MaxPartitions-1)
		}
		for i := first; i <= last; i++ {
			*l = append(*l, i)
		}
	}
	slices.Sort(*l)
	*l = slices.Compact(*l)
	return nil
}

func (l partitionList) String() string {
	var parts []string
	for _, i := range l {
		parts = append(parts, strconv.Itoa(i))
	}
	return strings.Join(parts, ",")
}
