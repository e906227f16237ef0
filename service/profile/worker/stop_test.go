package worker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/settings"

	"keyfold/shard"
	"keyfold/source/rabbit"
)

func TestMain(m *testing.M) { process.Main(m) }

// hanging is a store that answers nothing until it is asked no longer.
type hanging struct{}

func (hanging) Load(ctx context.Context, _ []int32) ([]*profile.Profile, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	<-ctx.Done()
	return make([]error, len(profiles))
}

func (hanging) Products(ctx context.Context, _ []int32) ([]profile.Product, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (h hanging) Now(ctx context.Context) (engine.Millis, error) { return 0, h.Probe(ctx) }

func (hanging) Probe(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Close() error { return nil }

// ignored settles nothing.
type ignored struct{}

func (ignored) Settle(engine.Verdict) {}

// silent is a broker that never answers.
func silent(string) rabbit.Timing {
	return rabbit.Timing{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

func quiet(open func(context.Context) (Store, error)) *Worker {
	c := Config{
		Config: settings.Config{
			Processor: processor.DefaultConfig(), Shard: shard.DefaultConfig(), Breaker: breaker.DefaultConfig(),
			Retry: settings.Retry{Attempts: 5, Delay: 5 * time.Second}, Timeout: 10 * time.Second,
		},
		DSN: "amqp://broker:5672/", Names: rabbit.DefaultNames(),
	}
	c.Processor.Model = "model"
	return New(c, Ports{OpenStore: open, Broker: silent, Log: slog.New(slog.DiscardHandler)})
}

// Neither the store nor the broker answers: the windows are given up when the time
// kept for closing begins, and Run returns before the shutdown timeout. All of it is
// in virtual time, which stands still while a goroutine waits for a mutex.
func TestStopWhileStoreAndBrokerAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := quiet(func(context.Context) (Store, error) { return hanging{}, nil })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		<-w.started
		event := profile.Event{UserID: 1, ProductID: 1, Type: profile.ProductView, MessageID: "a", OccurredAt: engine.Now()}
		must.OK(t, w.deliver(ctx, []profile.Delivery{{Event: event, Settler: ignored{}}}))
		time.Sleep(time.Second)
		stop()
		began := time.Now()
		err := <-ended
		if _, ok := errors.AsType[*shard.DrainError](err); !ok {
			t.Errorf("it ended with %v, want a DrainError", err)
		}
		if took := time.Since(began); took < 6*time.Second || took >= 10*time.Second {
			t.Errorf("it took %v, want from 6 s to less than 10 s", took)
		}
	})
}

// A store that is away at the start is waited for, a configuration fault is not.
func TestStartWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, fault := 0, engine.ConfigurationError("not_set_up", errors.New("no collection"))
		w := quiet(func(context.Context) (Store, error) {
			if calls++; calls < 6 {
				return nil, errors.New("refused")
			}
			return nil, fault
		})
		began := time.Now()
		if err := w.Run(t.Context()); !errors.Is(err, fault) {
			t.Errorf("it ended with %v", err)
		}
		// The pauses double up to 5 s; each is shortened by a random half at most.
		if took, longest := time.Since(began), (1+2+4+5+5)*time.Second; took < longest/2 || took > longest {
			t.Errorf("it took %v", took)
		}
		if err := w.Ready(); !errors.Is(err, errStarting) {
			t.Errorf("ready: %v", err)
		}
	})
}

// emptied is a store that stopped answering and came back without what setup made.
type emptied struct{ hanging }

var errNotSetUp = engine.ConfigurationError("store_not_set_up", errors.New("no unique index: run `keyfold setup`"))

func (emptied) Probe(context.Context) error { return errNotSetUp }

// A store that comes back empty is told of with its cure, and stays paused.
//
// Promise(away/emptied-store)
func TestStoreThatComesBackEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := quiet(func(context.Context) (Store, error) { return emptied{}, nil })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		<-w.started
		event := profile.Event{UserID: 1, ProductID: 1, Type: profile.ProductView, MessageID: "a", OccurredAt: engine.Now()}
		must.OK(t, w.deliver(ctx, []profile.Delivery{{Event: event, Settler: ignored{}}}))
		time.Sleep(w.config.Shard.Window + w.config.Breaker.Silence + 2*w.config.Breaker.MinPause)
		if err := w.Ready(); !errors.Is(err, errNotSetUp) {
			t.Errorf("ready: %v", err)
		}
		if s := w.Stats(); !errors.Is(s.ConfigFault, errNotSetUp) || !s.Store.Open {
			t.Errorf("stats: %v, breaker open %v", s.ConfigFault, s.Store.Open)
		}
		stop()
		<-ended
	})
}

// mortal is a store that answers until it is dead.
type mortal struct {
	hanging
	dead atomic.Bool
}

func (m *mortal) Probe(context.Context) error {
	if m.dead.Load() {
		return errRefused
	}
	return nil
}

var errRefused = errors.New("connection refused")

// A worker without an event notices that its store is dead, and is not ready then.
//
// Promise(away/store-breaker)
func TestAnIdleWorkerNoticesADeadStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mortal{}
		w := quiet(func(context.Context) (Store, error) { return store, nil })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		<-w.started
		time.Sleep(time.Minute)
		if s := w.Stats(); s.Store.Open {
			t.Errorf("the store is away before it is: %+v", s.Store)
		}
		store.dead.Store(true)
		time.Sleep(2*restBeforeProbe + w.config.Breaker.ProbeTimeout)
		if err := w.Ready(); !w.Stats().Store.Open || !errors.Is(err, errRefused) {
			t.Errorf("ready: %v, %+v", err, w.Stats().Store)
		}
		stop()
		<-ended
	})
}
