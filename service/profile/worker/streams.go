package worker

import (
	"context"
	"errors"
	"sync"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/partition"
	"keyfold/source/stream"
	"keyfold/source/stream/reader"
)

// streamEventBytes is the least that an event of a stream is reckoned to hold in memory.
const streamEventBytes = 384

// readStreams builds the reader of streams: a second door to the same windows. Copies of
// their events come back by the queue.
func (w *Worker) readStreams() error {
	c := &w.config
	positions, ok := w.store.(profile.Positions)
	if !ok {
		return engine.ConfigurationError("no_positions", errors.New("the store keeps no positions of streams"))
	}
	timing := w.ports.Broker("streams")
	dialer := rabbit.Dialer{DSN: c.DSN, Name: c.Identity.Connection("streams"), Timing: timing}
	w.streams = reader.New(reader.Config{
		Client: stream.Config{URI: c.Streams.URI, Name: c.Identity.Connection("streams"), Timing: timing},
		Names:  c.Names,
		// The windows have a bound of their own, which nothing may wait at that they wait for. It
		// is above the mark from which on they close windows, three quarters.
		MaxHeldBytes: c.Shard.MaxHeldBytes / 8 * 7,
	}, reader.Ports{
		Positions: positions, Share: partition.NewShare(dialer, c.Streams.Store, c.Identity.Tag(0, 0, 0)),
		Outside: w.consumer.NewOutside, CloseWindows: func() { w.pipeline.Router.Relieve() }, Log: w.ports.Log,
	})
	w.control.Consumers = append(w.control.Consumers, w.streams)
	return nil
}

// consume takes events by all doors until ctx ends or one of them fails.
func (w *Worker) consume(ctx context.Context) error {
	if w.streams == nil {
		return w.consumer.Run(ctx, consume.Events(w.deliver))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var doors sync.WaitGroup
	var read error
	doors.Go(func() {
		defer cancel()
		read = w.streams.Run(ctx, w.deliver)
	})
	err := w.consumer.Run(ctx, consume.Events(w.deliver))
	cancel()
	doors.Wait()
	return errors.Join(err, read)
}
