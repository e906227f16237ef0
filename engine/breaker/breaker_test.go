package breaker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"keyfold/internal/testserver/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("connection refused")

// fixture is a breaker of a store that can be taken away.
type fixture struct {
	*Breaker
	*CallGroup
	away   atomic.Bool
	hangs  atomic.Bool
	probes atomic.Int64
	mu     sync.Mutex
	told   []State
}

func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{}
	c := DefaultConfig()
	for _, apply := range change {
		apply(&c)
	}
	b, err := New(c, f.probe, func(s State) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.told = append(f.told, s)
	})
	must.OK(t, err)
	f.Breaker, f.CallGroup = b, b.Group()
	t.Cleanup(b.Close)
	return f
}

func (f *fixture) wait(ctx context.Context) error {
	_, err := f.Wait(ctx)
	return err
}

// states returns what was told so far.
func (f *fixture) states() []State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

func (f *fixture) probe(ctx context.Context) error {
	f.probes.Add(1)
	if f.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.away.Load() {
		return errDown
	}
	return nil
}

// call makes one call that ends at once.
func (f *fixture) call(err error) {
	f.Begin()
	f.End(err)
}

func (f *fixture) open(t *testing.T) {
	t.Helper()
	f.away.Store(true)
	for range f.config.Failures {
		f.call(errDown)
	}
	synctest.Wait()
	if !f.State().Open {
		t.Fatal("not open")
	}
}

// Promise(away/store-breaker)
func TestOpensAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.away.Store(true)
		f.call(errDown)
		f.call(errDown)
		f.call(nil)
		f.call(errDown)
		f.call(errDown)
		if f.State().Open {
			t.Fatal("open, though a call succeeded in between")
		}
		f.Begin()
		f.Leave() // is neither a success nor a failure
		if f.State().Open {
			t.Fatal("opened by a caller that went")
		}
		f.call(errDown)
		if s := f.State(); !s.Open || !errors.Is(s.Cause, errDown) || !s.Since.Equal(time.Now()) || s.Opened != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

// A store that hangs fails nothing: it is away all the same.
//
// Promise(away/store-breaker)
func TestOpensWhenNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.hangs.Store(true)
		f.Begin()
		time.Sleep(f.config.Silence - 1)
		synctest.Wait()
		if f.State().Open {
			t.Fatal("open a moment too soon")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !f.State().Open {
			t.Fatal("closed after the time of silence")
		}
		f.hangs.Store(false)
		time.Sleep(time.Minute)
		f.End(nil)
		if f.State().Open {
			t.Fatal("the store answers probes again, and the breaker is open")
		}
	})
}

func TestSilenceCountsFromTheLastSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.hangs.Store(true)
		f.Begin()
		for range 10 {
			f.Begin()
			time.Sleep(f.config.Silence - time.Second)
			f.End(nil)
		}
		if f.State().Open {
			t.Fatal("open beside successes")
		}
		time.Sleep(f.config.Silence)
		synctest.Wait()
		if !f.State().Open {
			t.Fatal("closed, though the call that is left hangs")
		}
		f.End(errDown)
	})
}

// Where nothing is under way, silence is rest.
func TestRestIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.call(nil)
		f.Begin()
		f.Leave()
		time.Sleep(time.Hour)
		synctest.Wait()
		if f.State().Open || len(f.states()) != 0 {
			t.Fatal("opened by an idle hour")
		}
	})
}

// A store that dies while no calls are made is noticed within the time of rest and that of
// a probe, whether it refuses or hangs, and the breaker closes when it is back. Beside
// calls no probe is made.
//
// Promise(away/store-breaker)
func TestRestingBreakerNotices(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.Rest = 10 * time.Second })
			for range 100 {
				time.Sleep(f.config.Rest - time.Second)
				f.call(nil)
			}
			if n := f.probes.Load(); n > 0 {
				t.Errorf("%d probes beside calls", n)
			}
			f.away.Store(!hangs)
			f.hangs.Store(hangs)
			time.Sleep(2*f.config.Rest + f.config.ProbeTimeout + time.Second) // a rest is noticed within two
			synctest.Wait()
			if s := f.State(); !s.Open || s.Cause == nil {
				t.Fatalf("hangs %t: %+v", hangs, s)
			}
			f.away.Store(false)
			f.hangs.Store(false)
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := f.State(); s.Open || s.Opened != 1 || f.Failing() != nil {
				t.Errorf("hangs %t: %+v, %v", hangs, s, f.Failing())
			}
		})
	}
}

// The probes at rest are no part of the share: a store that is called twice a minute and
// fails half of that is told of.
//
// Promise(away/store-breaker)
func TestProbesAtRestHideNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.Rest = 5 * time.Second })
		for range 8 {
			for _, err := range []error{nil, errDown} {
				time.Sleep(30 * time.Second)
				f.call(err)
			}
		}
		if n := f.probes.Load(); n < 16 {
			t.Fatalf("only %d probes: this test shows nothing", n)
		}
		if err := f.Failing(); !errors.Is(err, errDown) || f.State().Open {
			t.Errorf("%v, %+v", err, f.State())
		}
	})
}

// Promise(away/store-breaker)
func TestWaitersGoOnWhenAProbeSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.HoldMax = 10 * time.Minute })
		f.open(t)
		done := make(chan error, 1)
		go func() { done <- f.wait(t.Context()) }()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("waited no longer, though the store is away")
		}
		if n := f.State().Probes; n < 100 {
			t.Fatalf("%d probes in five minutes", n)
		}
		f.away.Store(false)
		time.Sleep(f.config.MaxPause)
		must.OK(t, <-done)
		synctest.Wait()
		if len(f.states()) != 2 || !f.states()[0].Open || f.states()[1].Open {
			t.Fatalf("told %+v", f.states())
		}
		must.OK(t, f.wait(t.Context()))
	})
}

// Promise(away/held-too-long)
func TestHoldingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.open(t)
		done := make(chan error, 1)
		go func() { done <- f.wait(t.Context()) }()
		time.Sleep(f.config.HoldMax)
		if err := <-done; !errors.Is(err, ErrExpired) || !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		if err := f.wait(t.Context()); !errors.Is(err, ErrExpired) {
			t.Fatalf("a later one waits again: %v", err)
		}
		f.away.Store(false)
		time.Sleep(f.config.MaxPause)
		synctest.Wait()
		must.OK(t, f.wait(t.Context()))
		if len(f.states()) != 3 || !f.states()[1].Expired || f.states()[2].Expired {
			t.Fatalf("told %+v", f.states())
		}
		f.open(t)
		if f.State().Expired || f.State().Opened != 2 {
			t.Fatalf("%+v", f.State())
		}
	})
}

func TestCloseEndsEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.open(t)
		f.hangs.Store(true)
		time.Sleep(3 * time.Second) // a probe hangs
		done := make(chan error, 1)
		go func() { done <- f.wait(context.Background()) }()
		f.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		f.Close()
	})
}

func TestWaitSaysWhetherItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		if waited, err := f.Wait(t.Context()); waited || err != nil {
			t.Fatal(waited, err)
		}
		f.open(t)
		f.away.Store(false)
		if waited, err := f.Wait(t.Context()); !waited || err != nil {
			t.Fatal(waited, err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.open(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	})
}

// Whatever happens: what was told last is what is, and who waits gets an answer
// within a probe of the store's return.
func TestToldAsItIs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.HoldMax = 20 * time.Second })
			under := 0
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				switch rapid.IntRange(0, 5).Draw(rt, "step") {
				case 0:
					f.away.Store(true)
				case 1:
					f.away.Store(false)
				case 2:
					f.Begin()
					under++
				case 3:
					if under > 0 {
						under--
						f.End(errDown)
					}
				case 4:
					if under > 0 {
						under--
						f.End(nil)
					}
				case 5:
					time.Sleep(time.Duration(rapid.IntRange(1, 12_000).Draw(rt, "ms")) * time.Millisecond)
				}
				synctest.Wait()
				told := f.states()
				if n := len(told); n > 0 && (told[n-1].Open != f.State().Open || told[n-1].Expired != f.State().Expired) {
					rt.Fatalf("told %+v, is %+v", told[n-1], f.State())
				}
				if len(told) == 0 && f.State().Open {
					rt.Fatal("open, and nobody was told")
				}
			}
			f.away.Store(false)
			for ; under > 0; under-- {
				f.End(nil)
			}
			time.Sleep(f.config.MaxPause)
			synctest.Wait()
			if f.State().Open {
				rt.Fatalf("the store is back, and %+v", f.State())
			}
			f.Close()
		})
	})
}

func TestConfigSaysEveryFault(t *testing.T) {
	err := Config{}.Validate()
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 4 {
		t.Fatalf("want four faults: %v", err)
	}
	must.OK(t, DefaultConfig().Validate())
}
