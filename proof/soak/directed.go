package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"keyfold/internal/testserver/mongotest"
	"keyfold/proof/stack"

	"keyfold/engine/failpoint"
)

// visit goes to points one by one, each with a worker that dies there, and in
// the end, where errors is set, with one that fails at all that take errors.
func (s *soak) visit(ctx context.Context, names []string, withErrors bool) error {
	if err := s.fleet.scale(1); err != nil {
		return err
	}
	for _, name := range names {
		s.say("failpoint %s: exit", name)
		var err error
		if name == failpoint.ReplayConfirmed {
			err = s.dieInReplay(ctx)
		} else {
			err = s.dieAt(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("failpoint %s: %w", name, err)
		}
	}
	if !withErrors {
		return nil
	}
	if err := s.failEverywhere(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*visitLimit)
	defer cancel()
	return errors.Join(s.loseUnconfirmed(ctx), s.readUnpromised(ctx))
}

// readUnpromised has a store forget what it showed: writes no majority has are
// read, if only with local read concern, by the successor of a killed worker, and
// then rolled back.
func (s *soak) readUnpromised(ctx context.Context) error {
	if !s.store.own() {
		return nil
	}
	w, err := s.replaceBy(ctx, "")
	if err == nil {
		err = w.ready(ctx)
	}
	if err != nil {
		return err
	}
	s.say("%s, and %s before it", failOver, killWorker)
	return s.store.control(func(r *mongotest.Remote) error {
		if err := r.StallReplication(); err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // windows close and are written
		s.counts[killWorker]++
		started := s.fleet.arm(w.slot, "")
		s.fleet.kill(w)
		successor, err := arrival(ctx, started)
		if err == nil {
			err = successor.ready(ctx)
		}
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // the events come again, and profiles are read
		_, err = r.Rollback()
		return err
	})
}

// loseUnconfirmed kills a broker that has copies of failed events in its
// sockets and has not read them: under an alarm it delivers, and takes nothing.
func (s *soak) loseUnconfirmed(ctx context.Context) error {
	w, err := s.replaceBy(ctx, "phrase=error:1/2")
	if err == nil {
		err = w.ready(ctx)
	}
	if err != nil {
		return err
	}
	s.say("%s, and %s while it is on", alarm, killBroker)
	p := schedule{soak: s}
	if err := s.Broker.SetAlarm(true); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // windows close, phrases fail, copies are written
	s.counts[killBroker]++
	return p.actOnBroker(step{Do: killBroker, For: 200 * time.Millisecond})
}

const visitLimit = 2 * time.Minute

// replaceBy ends the worker and starts one with failpoints.
func (s *soak) replaceBy(ctx context.Context, points string) (*worker, error) {
	w, err := s.fleet.await(ctx, 0)
	if err != nil {
		return nil, err
	}
	started := s.fleet.arm(0, points)
	s.fleet.terminate(w)
	return arrival(ctx, started)
}

// arrival waits for a worker that was ordered.
func arrival(ctx context.Context, started <-chan *worker) (*worker, error) {
	select {
	case w := <-started:
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dieAt has a worker die at a point.
func (s *soak) dieAt(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, visitLimit)
	defer cancel()
	points := name + "=exit:1"
	if name == failpoint.RetryConfirmed || name == failpoint.Unconfirmed {
		points = "phrase=error:1/3;" + points
	}
	w, err := s.replaceBy(ctx, points)
	if err != nil {
		return err
	}
	if name == failpoint.Closing || name == failpoint.Drained {
		if err := w.ready(ctx); err != nil {
			return err
		}
		time.Sleep(300 * time.Millisecond) // windows open
		s.fleet.terminate(w)
	}
	return s.death(ctx, w)
}

// dieInReplay has `dlq replay` die with a letter in two places.
func (s *soak) dieInReplay(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, visitLimit)
	defer cancel()
	return stack.Poll(ctx, 300*time.Millisecond, func() (bool, error) {
		err := s.replay(ctx, failpoint.ReplayConfirmed+"=exit:1", 3)
		if ctx.Err() != nil {
			return false, fmt.Errorf("not met within %v: %w", visitLimit, err)
		}
		return killed(err), nil // or there is no such letter yet
	})
}

// failEverywhere has one worker fail at every point that takes errors, and ends
// with the one that ends the worker.
func (s *soak) failEverywhere(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, visitLimit)
	defer cancel()
	var points, want []string
	for i, name := range failpoint.Names {
		if failpoint.TakesErrors(name) && name != failpoint.Windowed && name != failpoint.ReplayConfirmed && name != failpoint.Phrase {
			points, want = append(points, fmt.Sprintf("%s=error:%d", name, 1+i%2)), append(want, name+" error")
		}
	}
	points = append(points, "phrase=error:1/3")
	s.say("failpoints: errors at %s", strings.Join(want, ", "))
	if _, err := s.replaceBy(ctx, strings.Join(points, ";")); err != nil {
		return err
	}
	if err := s.awaitHits(ctx, want); err != nil {
		return err
	}
	s.say("failpoint windowed: error")
	if _, err := s.replaceBy(ctx, failpoint.Windowed+"=error:1"); err != nil {
		return err
	}
	return s.awaitHits(ctx, []string{failpoint.Windowed + " error"})
}

// awaitHits waits until all of these have acted.
func (s *soak) awaitHits(ctx context.Context, want []string) error {
	var left []string
	err := stack.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
		met, err := s.met()
		left = slices.DeleteFunc(slices.Clone(want), func(hit string) bool { return met[hit] })
		return len(left) == 0, err
	})
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("not met within %v: %s", visitLimit, strings.Join(left, ", "))
	}
	return err
}
