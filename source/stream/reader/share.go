package reader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"keyfold/engine/backoff"
	"keyfold/engine/causes"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
)

// Share says which streams are this worker's: [keyfold/source/rabbit/partition.Share].
type Share interface {
	Open(ctx context.Context) error
	Ended() <-chan struct{}
	Close(ctx context.Context)
	Poll(items int) (mine []bool, workers int, err error)
	Settled() bool
	Lock(item string) (bool, error)
	Unlock(item string) error
}

// sharing starts and stops the reading of streams by the worker's share.
type sharing struct {
	reader  *Reader
	deliver deliver
	share   Share
	fail    func(error) // ends all reading

	streams   []rabbit.Stream // that the broker has
	looked    time.Time       // at the broker
	reading   sync.WaitGroup
	mine      map[rabbit.Stream]*assigned
	adoptFrom time.Time // no stream is adopted before
	settled   int       // polls in a row, since the last try to adopt a stream, in which the count did not change
	last      int       // the stream of the last try
}

// assigned is a stream that this worker reads.
type assigned struct {
	*streamReader
	adopted time.Time // when it was taken though it is another worker's, which did not read it; else zero
	stop    context.CancelFunc
	done    chan struct{}
}

// lookEvery is how often the broker is asked for streams: a setup may have made others.
const lookEvery = 15 * time.Second

// run reads the worker's share until ctx ends, with one connection of the share after the
// other.
func (s *sharing) run(ctx context.Context) {
	timing := s.reader.config.Client.Timing
	pause := backoff.Backoff{Min: timing.BackoffMin, Max: timing.BackoffMax}
	for ctx.Err() == nil {
		err := s.hold(ctx, &pause)
		if ctx.Err() != nil {
			return
		}
		s.reader.setShareFault(err)
		wait := pause.Next()
		if s.reader.fault.Begins(err) {
			s.reader.ports.Log.Error("streams not read", slog.String("broker", stream.Redact(s.reader.config.Client.URI)), slog.Any("error", err), slog.Duration("retry_in", wait),
				slog.String("hint", causes.Hint(err, "they are read again by themselves, and no event is lost")))
		}
		backoff.Sleep(ctx, wait)
	}
}

// hold reads the share until its connection ends, or ctx does: then what is in hand stays to
// be settled.
func (s *sharing) hold(ctx context.Context, pause *backoff.Backoff) error {
	if err := s.share.Open(ctx); err != nil {
		return err
	}
	s.mine = map[rabbit.Stream]*assigned{}
	reading, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		s.reading.Wait()
		if ctx.Err() == nil {
			s.lose(ctx)
		}
	}()
	for {
		if err := s.poll(reading); err != nil {
			return err
		}
		s.reader.setShareFault(nil)
		s.reader.fault.Ends()
		pause.Reset()
		select {
		case <-s.share.Ended():
			return errShareLost
		case <-ctx.Done():
			return nil
		case <-time.After(s.reader.config.Client.Timing.Poll):
		}
	}
}

// lose leaves all streams to other workers, whose locks this one has lost. What is in hand
// is read again, and known by its marks where it is written by then.
func (s *sharing) lose(ctx context.Context) {
	for _, a := range s.mine {
		a.save(ctx)
		a.end(errShareLost)
		s.reader.remove(a.streamReader)
	}
	s.reader.Stats.Owned.Store(0)
	s.share.Close(ctx)
}

// poll follows the share once.
func (s *sharing) poll(ctx context.Context) error {
	if len(s.streams) == 0 || time.Since(s.looked) > lookEvery {
		found, err := stream.Find(ctx, s.reader.config.Client, s.reader.config.Names)
		if err != nil {
			return err
		}
		s.know(found)
	}
	mine, workers, err := s.share.Poll(len(s.streams))
	if err != nil {
		return err
	}
	s.reader.Stats.Workers.Store(int64(workers))
	if err := s.adopt(ctx, mine); err != nil {
		return err
	}
	var leaving []*assigned
	for i, one := range s.streams {
		a, reads := s.mine[one]
		switch {
		case mine[i] && !reads:
			if err := s.take(ctx, one); err != nil {
				return err
			}
		case !mine[i] && reads && (time.Since(a.adopted) > adoptedFor || !s.share.Settled()):
			leaving = append(leaving, a)
			delete(s.mine, one)
			s.settled = 0 // its worker has time to take it
		}
	}
	err = s.handOver(ctx, leaving)
	s.reader.Stats.Owned.Store(int64(len(s.mine)))
	return err
}

// pollsToAdopt is how many polls lie between two tries to adopt a stream: each one that fails
// costs a channel, and a line in the broker's log.
const pollsToAdopt = 10

// adoptedFor is how long a worker keeps an adopted stream while the count does not change: one
// that was slow to take it takes it then, within a poll.
const adoptedFor = 10 * time.Minute

// know takes what a look for streams has found. Where a setup has made others, none is adopted until
// all workers have looked, and read their own.
func (s *sharing) know(found []rabbit.Stream) {
	s.looked = time.Now()
	if !slices.Equal(found, s.streams) {
		s.streams, s.adoptFrom = found, s.looked.Add(2*lookEvery)
	}
}

// adopt reads one stream, if there is one, whose worker by the count does not read it, until the
// count changes or for [adoptedFor]. A broker that lost a node counts the workers that were connected there until the
// node is back (rabbitmq-server#2421).
func (s *sharing) adopt(ctx context.Context, mine []bool) error {
	if s.settled++; !s.share.Settled() {
		s.settled = 0
	}
	if s.settled < pollsToAdopt || time.Now().Before(s.adoptFrom) {
		return nil
	}
	for range s.streams {
		s.last = (s.last + 1) % len(s.streams)
		one := s.streams[s.last]
		if mine[s.last] || s.mine[one] != nil {
			continue
		}
		err := s.take(ctx, one)
		if a := s.mine[one]; a != nil {
			a.adopted = time.Now() // and there may be others: the next poll tries
		} else {
			s.settled = 0
		}
		return err
	}
	return nil
}

// take reads a stream, unless another worker does still.
func (s *sharing) take(ctx context.Context, one rabbit.Stream) error {
	locked, err := s.share.Lock(s.reader.config.Names.StreamQueue(one))
	if err != nil || !locked {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	a := &assigned{streamReader: newStreamReader(s.reader, one, s.deliver), stop: stop, done: make(chan struct{})}
	s.mine[one] = a
	s.reader.add(a.streamReader)
	s.reading.Go(func() {
		defer close(a.done)
		defer stop()
		if err := a.run(reading); err != nil {
			s.fail(err)
		}
	})
	return nil
}

// handOverTimeout is for how long a worker keeps a stream that is another's to have its events
// written. What is not written by then is read by the other too.
const handOverTimeout = 10 * time.Second

// handOver stops reading streams and lets their new owners have them.
func (s *sharing) handOver(ctx context.Context, leaving []*assigned) error {
	if len(leaving) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	var closing sync.WaitGroup
	for _, a := range leaving {
		a.stop()
		closing.Go(func() {
			<-a.done
			if err := a.close(ctx); err != nil {
				a.log.Debug("stream handed over with events in hand", slog.Any("error", err))
			}
		})
	}
	s.reader.closeWindows()
	closing.Wait()
	var err error
	for _, a := range leaving {
		s.reader.remove(a.streamReader)
		err = errors.Join(err, s.share.Unlock(a.name))
	}
	return err
}
