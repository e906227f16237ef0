package processor_test

import (
	"context"
	"fmt"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
)

// Workers that write the same users in turn, as on one queue, soon read a profile before they
// write it: of 1,200 writes fewer than a tenth are refused. Without that nearly all are.
//
// Promise(rabbitmq/shared-windows)
func TestOtherWorkersWritesEndTheTrustInTheCache(t *testing.T) {
	f := newFixture(t)
	const users = 60
	workers := []*processor.Engine{f.Engine, f.engine(t), f.engine(t)}
	turn := func(n int, w *processor.Engine) {
		batches := make([]profile.Batch, users)
		for user := range batches {
			batches[user] = batch(view(int32(user+1), fmt.Sprint(n, user), 1, engine.Millis(n+1)))
		}
		w.Apply(context.Background(), batches)
	}
	const turns = 20
	for n := range turns {
		turn(n, workers[n%len(workers)])
	}
	conflicts := int64(0)
	for _, w := range workers {
		conflicts += w.Stats().Conflicts.Load()
	}
	// Each worker learns it by its first flush of users in the cache.
	if most := int64(len(workers)*users + users*turns/10); conflicts > most {
		t.Errorf("%d conflicts of %d writes, more than %d", conflicts, users*turns, most)
	}
	for user := range int32(users) {
		if p := f.profile(t, user+1); p.EventCount != turns || p.Version != turns {
			t.Errorf("user %d: %d events, version %d", user+1, p.EventCount, p.Version)
		}
	}
	// Alone again, the first worker finds out that the cache is right.
	const longest = 400
	n := turns
	for before := int64(-1); n < turns+longest && workers[0].Stats().Reads.Load() != before; n++ {
		before = workers[0].Stats().Reads.Load()
		turn(n, workers[0])
	}
	if n == turns+longest {
		t.Errorf("after %d flushes alone the worker reads its users still", longest)
	}
}

// A worker that is alone reads each user once, also where a conflict comes now and then.
//
// Promise(rabbitmq/shared-windows)
func TestACacheThatIsMostlyRightIsTrusted(t *testing.T) {
	f := newFixture(t)
	other := f.engine(t)
	const users, turns = 20, 200
	for n := range turns {
		for user := range int32(users) {
			e := f.Engine
			if (n*users+int(user))%20 == 19 {
				e = other
			}
			e.Apply(context.Background(), []profile.Batch{batch(view(user+1, fmt.Sprint(n, user), 1, engine.Millis(n+1)))})
		}
	}
	s := f.Stats()
	if reads, most := s.Reads.Load(), s.Writes.Load()/5; reads > most {
		t.Errorf("%d reads for %d writes, more than %d", reads, s.Writes.Load(), most)
	}
}
