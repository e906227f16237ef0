package mongodb

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"

	"keyfold/engine"
)

// lookEvery is how long a look at the unique index is believed where nothing gives
// reason for doubt.
const lookEvery = 10 * time.Second

// guard knows when the unique index was last seen. Another program can drop it, or
// the whole database, or start another server in the place of this one.
type guard struct {
	// doubts counts the reasons to look again: a new connection, which may be to
	// another server or to one that was started anew, and a Load that did not find
	// the probes' document.
	doubts atomic.Int64
	last   atomic.Pointer[look]
	// unmarked: the probes' document is missing, and is to be written again where the
	// index is there.
	unmarked atomic.Bool
	// unmarkable: the collection takes no document of a probe.
	unmarkable atomic.Bool
}

// monitor doubts whenever a connection is made.
func (g *guard) monitor() *event.PoolMonitor {
	return &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		if e.Type == event.ConnectionReady {
			g.doubts.Add(1)
		}
	}}
}

// missing notes that the probes' document is not in the collection: it is
// not the one that was set up, or was emptied.
func (g *guard) missing() {
	if !g.unmarkable.Load() {
		g.unmarked.Store(true)
		g.doubts.Add(1)
	}
}

// look is a look that found the index.
type look struct {
	at     time.Time
	doubts int64 // there were, before it
}

// checkSetUp returns a configuration fault where the unique index is missing: without
// it two workers could insert one user twice. It asks the server where there is
// reason for doubt, and otherwise every lookEvery.
func (s *Store) checkSetUp(ctx context.Context) error {
	if last := s.guard.last.Load(); last != nil && last.doubts == s.guard.doubts.Load() && time.Since(last.at) < lookEvery {
		return nil
	}
	return s.lookAtIndex(ctx)
}

// lookAtIndex asks the server for the unique index.
func (s *Store) lookAtIndex(ctx context.Context) error {
	now := look{at: time.Now(), doubts: s.guard.doubts.Load()}
	if err := s.checkIndex(ctx); err != nil {
		return err
	}
	if s.guard.unmarked.CompareAndSwap(true, false) {
		if err := s.writeProbe(ctx); err != nil {
			s.guard.unmarked.Store(true)
			return err
		}
	}
	s.guard.last.Store(&now)
	return nil
}

// takeBack removes what a bulk inserted while there was reason for doubt, if the
// index is missing: the driver sends a bulk again when its connection was lost, and
// the server may have been started anew, and empty, in between.
func (s *Store) takeBack(ctx context.Context, writes []write, id bson.ObjectID) error {
	err := s.checkSetUp(ctx)
	if err == nil {
		return nil
	}
	if engine.ReasonOf(err) == reasonNotSetUp {
		filter := bson.D{{Key: fieldUser, Value: bson.D{{Key: "$in", Value: usersOf(writes)}}}, {Key: fieldWriteID, Value: id}}
		_, failure := s.users.DeleteMany(ctx, filter)
		if failure == nil {
			return err
		}
		err = errors.Join(err, mark("take inserts back", failure))
	}
	return fmt.Errorf("%w: %w", engine.ErrUnknown, err)
}
