package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"keyfold/engine/profile"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
)

// heal ends every fault that lasts.
func (s *soak) heal() error {
	for _, r := range s.relays {
		r.broker.Delay(0)
		r.broker.Thaw()
		if r.store != nil {
			r.store.Delay(0)
			r.store.Thaw()
		}
	}
	var errs []error
	if s.store.own() {
		_ = s.store.Signal(syscall.SIGCONT)
		errs = append(errs, s.store.heal())
	}
	errs = append(errs, s.Broker.Signal(syscall.SIGCONT))
	for _, w := range s.fleet.running() {
		_ = w.Signal(syscall.SIGCONT)
	}
	return errors.Join(errs...)
}

// restLimit is how long a healed stack may take to come to rest. The longest
// backoff of a worker is half a minute.
const restLimit = 3 * time.Minute

// rest waits until so many looks in a row find the queues empty: nothing is ready,
// nothing is held by a worker, nothing waits for a retry.
func (s *soak) rest(ctx context.Context, looks int) error {
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	quiet := 0
	return stack.Poll(ctx, 300*time.Millisecond, func() (bool, error) {
		depths, err := s.depths()
		if quiet++; len(depths) > 0 {
			quiet = 0
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("not empty %v after the last fault: %v", restLimit, depths)
		}
		return quiet == looks, err
	})
}

// depths returns how many messages each queue of the workers holds, ready or
// not, for those that are not empty.
func (s *soak) depths() (map[string]int, error) {
	depths, err := s.Broker.Depths("/")
	if err != nil {
		return nil, err
	}
	if s.Streams > 0 {
		if err := s.withoutRead(depths); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(depths, func(name string, n int) bool { return n == 0 || name == rabbit.DefaultNames().DeadLetters })
	return depths, nil
}

// withoutRead takes from the depths of streams, which keep their messages, what workers have
// settled by their stored positions.
func (s *soak) withoutRead(depths map[string]int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	store, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	for name := range depths {
		if _, is := rabbit.DefaultNames().StreamOf(name); !is {
			continue
		}
		at, err := store.LoadPosition(ctx, name)
		if err != nil {
			return err
		}
		depths[name] = max(0, depths[name]-int(at.Offset))
	}
	return nil
}

// rewind has the workers read all streams again from their first offsets.
func (s *soak) rewind(ctx context.Context) error {
	store, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	for i := range s.Streams {
		name := rabbit.DefaultNames().StreamQueue(rabbit.Stream{Generation: 1, Partition: i})
		seen, failed := store.LoadPosition(ctx, name)
		err = errors.Join(err, failed, store.Rewind(ctx, name, seen, profile.Position{}))
	}
	return err
}

// verify compares everything there is with a ledger. Nothing may be published
// meanwhile, and the stack has to be at rest.
func verify(ctx context.Context, s *stack.Stack, l *ledger) (*findings, error) {
	profiles, err := s.ReadProfiles(ctx)
	if err != nil {
		return nil, err
	}
	letters, err := s.DeadLetters(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(letters))
	for i, letter := range letters {
		ids[i] = letter.ID
	}
	return l.compare(profiles, ids), nil
}

// checkpoint brings the stack to rest and verifies. The feed has to be paused.
func (s *soak) checkpoint(ctx context.Context) (*findings, error) {
	if err := s.heal(); err != nil {
		return nil, err
	}
	if err := s.rest(ctx, 2); err != nil {
		return nil, err
	}
	f, err := verify(ctx, s.Stack, s.ledger)
	if err == nil && len(f.lost) > 0 {
		// The broker answers a look before what waits in a busy queue's mailbox: a
		// message that comes back from a delay queue may be in neither for a while.
		if err := s.rest(ctx, 20); err != nil {
			return f, err
		}
		f, err = verify(ctx, s.Stack, s.ledger)
	}
	if err == nil {
		err = f.err()
	}
	return f, err
}
