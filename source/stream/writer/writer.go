package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"keyfold/engine/backoff"
	"keyfold/engine/metric"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
)

// Config holds a writer's settings.
type Config struct {
	Client stream.Config
	Names  rabbit.Names
}

// Group is what a stream takes as a whole.
type Group struct {
	Stream    string
	Reference string   // the stream remembers the highest number of each
	Number    uint64   // those of a reference rise
	Messages  [][]byte // each made by [stream.AppendMessage]; 125 at most
}

// Stats counts since the start, except for the gauge.
type Stats struct {
	Confirmed atomic.Int64 // messages that a stream has
	Unknown   atomic.Int64 // messages without an answer
	Silent    atomic.Int64 // gauge: 1 while the broker answers nothing of what is published
}

// Register adds the writer's series.
func (w *Writer) Register(set *metric.Set) {
	set.Gauge("keyfold_rabbitmq_publisher_blocked", "1 while an alarm of the broker stops publishing.", metric.Int(w.Stats.Silent.Load))
}

// Writer publishes on connections of its own to the leaders of the newest generation's
// streams. It connects when it is asked something, and again after a connection was lost.
type Writer struct {
	Stats Stats

	config Config
	log    *slog.Logger
	turn   chan struct{} // held while the fields below are used
	live   *session
	pause  backoff.Backoff
	retry  time.Time // no connection attempt before
	failed error     // the attempt before
	closed bool
}

// New returns a writer, which is not connected yet.
func New(config Config, log *slog.Logger) *Writer {
	timing := config.Client.Timing.OrDefaults()
	return &Writer{
		config: config, log: log.With("component", "streams"), turn: make(chan struct{}, 1),
		pause: backoff.Backoff{Min: timing.BackoffMin, Max: timing.BackoffMax},
	}
}

var errClosed = errors.New("streams: the writer is closed")

// Last returns the stream that takes a slot's events, of the newest generation, and the number
// of the last group that it has of a reference; 0: none.
func (w *Writer) Last(ctx context.Context, slot int, reference string) (name string, number uint64, err error) {
	s, err := w.session(ctx)
	if err != nil {
		return "", 0, err
	}
	name = s.streams[slot%len(s.streams)]
	number, err = s.conns[name].QueryPublisherSequence(ctx, reference, name)
	if err != nil {
		err = w.silent(ctx, err)
		s.end(err)
	}
	return name, number, err
}

// silent notes that no answer came within the deadline, on a connection that has published.
func (w *Writer) silent(ctx context.Context, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	w.Stats.Silent.Store(1)
	return fmt.Errorf("%w: %w", errSilent, err)
}

// Publish sends groups, those of a reference in the order of their numbers, and awaits the
// answers, which are aligned with groups: nil once the stream has the group, be it by an earlier
// sending; [engine.ErrUnknown] where it may have it; a permanent error where the group never
// fits into a frame. All else was not sent and is transient. One caller at a time has a
// reference. ctx is to have a deadline: during an alarm the broker reads nothing.
func (w *Writer) Publish(ctx context.Context, groups []Group) []error {
	errs := make([]error, len(groups))
	s, err := w.session(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	answers := make([]*answer, len(groups))
	unsent := map[string]error{} // by reference: the number of a later group would hide it
	for i := range groups {
		g := &groups[i]
		if before := unsent[g.Reference]; before != nil {
			errs[i] = fmt.Errorf("streams: publish to %s: a group before it was not sent: %s", g.Stream, before.Error())
		} else if answers[i], errs[i] = s.send(ctx, g); errs[i] != nil {
			unsent[g.Reference] = errs[i]
		}
	}
	for i, a := range answers {
		if a != nil {
			errs[i] = w.await(ctx, s, &groups[i], a)
		}
	}
	return errs
}

// await returns the answer for a group. Where none comes, the session ends: the next one asks
// the broker for what it has.
func (w *Writer) await(ctx context.Context, s *session, group *Group, a *answer) error {
	messages := int64(len(group.Messages))
	var err error
	select {
	case <-a.came:
		err = a.err
	case <-s.ended:
		err = a.orElse(s.reason)
	case <-ctx.Done():
		err = w.silent(ctx, ctx.Err())
	}
	if err == nil {
		w.Stats.Confirmed.Add(messages)
		w.Stats.Silent.Store(0)
		return nil
	}
	s.end(err)
	w.Stats.Unknown.Add(messages)
	return unknown(group, err)
}

// Silent returns why nothing can be published at present though the broker answers, nil for
// nothing.
func (w *Writer) Silent() error {
	if w.Stats.Silent.Load() == 0 {
		return nil
	}
	return errSilent
}

var errSilent = errors.New("streams: the broker confirms nothing: see whether it has an alarm of its disk (rabbitmqctl status), which stops publishing to streams")

// lookEvery is how often the broker is asked for streams: a setup may have made others.
const lookEvery = 15 * time.Second

// session returns the live session, connecting where there is none. After a failure the next
// attempt waits for the backoff.
func (w *Writer) session(ctx context.Context) (*session, error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("streams: publish: %w", ctx.Err())
	}
	if w.closed {
		return nil, errClosed
	}
	if w.live != nil && w.live.over() {
		w.log.Debug("publishing connection lost", slog.Any("error", w.live.reason))
		w.live.close(ctx)
		w.live = nil
	}
	if w.live != nil && time.Since(w.live.looked) < lookEvery {
		return w.live, nil
	}
	if !backoff.Sleep(ctx, time.Until(w.retry)) {
		return nil, errors.Join(fmt.Errorf("streams: publish: waiting to connect again: %w", ctx.Err()), w.failed)
	}
	if err := w.renew(ctx); err != nil {
		if w.live != nil && !w.live.over() { // the node that was asked is away, not the leaders
			w.live.looked = time.Now()
			return w.live, nil
		}
		w.retry, w.failed = time.Now().Add(w.pause.Next()), err
		return nil, err
	}
	w.pause.Reset()
	w.failed = nil
	return w.live, nil
}

// renew connects, unless the streams are those of the live session.
func (w *Writer) renew(ctx context.Context) error {
	streams, err := newest(ctx, w.config)
	if err != nil {
		return err
	}
	if w.live != nil {
		if w.live.has(streams) {
			w.live.looked = time.Now()
			return nil
		}
		// What is on its way to the streams of the generation before is unknown.
		w.live.end(errOthers)
		w.live.close(ctx)
		w.live = nil
	}
	w.live, err = open(ctx, w.config, streams)
	return err
}

var errOthers = errors.New("streams: the broker has other streams now")

// Close ends the connections.
func (w *Writer) Close(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	w.closed = true
	if w.live != nil {
		w.live.end(errClosed)
		w.live.close(ctx)
		w.live = nil
	}
	return nil
}
