package worker_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/sitetest"
)

// A stream whose position is lost in a later epoch is not read as in its first one, where marks of
// the stream before it would take what is unread for read. Accepted, it is read in its epoch, and
// what was read of that counts once.
//
// Promise(streams/lost-epoch): A stream whose position was lost after it was accepted is refused until it is accepted again, and nothing counts twice or is swallowed.
func TestLostPositionOfALaterEpoch(t *testing.T) {
	s := newStreamSite(t, 1)
	w := s.work()
	s.publish(600, true, profile.ProductView)
	s.folded()
	w.end(t)
	if _, err := s.Channel().QueueDelete(s.stream(), false, false, false); err != nil {
		t.Fatal(err)
	}
	s.setUp(1)
	s.publish(300, true, profile.ProductView)
	s.accept()
	w = s.work()
	s.folded()
	w.end(t)
	s.forgetIDs() // or those would know what is read again
	if err := s.store.Rewind(t.Context(), s.stream(), s.position(), profile.Position{}); err != nil {
		t.Fatal(err)
	}
	sent := slices.Clone(s.sent[:])
	s.publish(50, true, profile.ProductView)
	after := slices.Clone(s.sent[:])
	copy(s.sent[:], sent)
	w = s.work()
	sitetest.Eventually(t, "the fault is told", refuses(w))
	s.folded()
	copy(s.sent[:], after)
	if c := s.accept(); c.To.Offset != 0 || c.To.Epoch != (profile.Epoch{Number: 1}) {
		t.Fatalf("accepted as %+v", c)
	}
	s.folded()
	w.end(t)
	if c := s.changed(); c != nil {
		t.Fatalf("a stream that was accepted has changed: %+v", c)
	}
	s.mark(1000, 6*time.Minute) // the stream was made anew again, and its position lost
	if err := s.store.Rewind(t.Context(), s.stream(), s.position(), profile.Position{}); err != nil {
		t.Fatal(err)
	}
	if c := s.changed(); c == nil || c.To.Offset != 0 || c.To.Epoch != (profile.Epoch{Number: 2}) {
		t.Errorf("it would be accepted as %+v", c)
	}
}

// losing is a store that can lose its positions.
type losing struct {
	inMemory
	lost atomic.Bool
}

func (l *losing) LoadPosition(ctx context.Context, stream string) (profile.Position, error) {
	if l.lost.Load() {
		return profile.Position{}, nil
	}
	return l.inMemory.LoadPosition(ctx, stream)
}

func (l *losing) SavePosition(ctx context.Context, stream string, at profile.Position) error {
	l.lost.Store(false)
	return l.inMemory.SavePosition(ctx, stream, at)
}

// A worker that reads a stream stores its position again where it was lost.
//
// Promise(streams/lost-epoch)
func TestLostPositionIsStoredAgain(t *testing.T) {
	s := newStreamSite(t, 1)
	if err := s.store.Rewind(t.Context(), s.stream(), profile.Position{}, profile.Position{}); err != nil {
		t.Fatal(err)
	}
	store := &losing{inMemory: s.store}
	w := s.workOn(s.Names, "profiles", store, &s.failing)
	s.publish(60, true, profile.ProductView)
	s.folded()
	sitetest.Eventually(t, "the position is stored", func() bool { return s.position().Offset == 60 })
	store.lost.Store(true)
	sitetest.Eventually(t, "it is stored again", func() bool { return !store.lost.Load() })
	w.end(t)
	if at := s.position(); at.Offset != 60 || at.Rewinds != 1 {
		t.Errorf("the position is %+v", at)
	}
	if n := w.Stats().Streams.Delivered.Load(); n != 60 {
		t.Errorf("%d events were read", n)
	}
}

// forgetIDs takes the ids out of all profiles.
func (s *streamSite) forgetIDs() {
	s.T.Helper()
	for _, p := range s.profiles() {
		if p == nil {
			continue
		}
		changed := *p
		changed.Version++
		changed.Applied = profile.Applied{}
		if err := s.store.Swap(s.T.Context(), []*profile.Profile{&changed})[0]; err != nil {
			s.T.Fatal(err)
		}
	}
}
