package vector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
)

var (
	errDown    = errors.New("503")
	errKey     = engine.ConfigurationError("embedding_api_key", errors.New("set OPENAI_API_KEY"))
	errRefused = engine.PermanentError("embedding_refused", errors.New("400"))
	errQuota   = &engine.Error{Kind: engine.Transient, Err: fmt.Errorf("429: %w: raise the quota", engine.ErrAway)}
)

// faulty is an embedder that fails as it is told.
type faulty struct {
	mu    sync.Mutex
	err   error
	calls int
}

func (f *faulty) Embed(_ context.Context, phrases []string) ([][]float32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err != nil {
		return nil, f.err
	}
	return lengths(phrases)
}

func (f *faulty) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faulty) Model() string   { return "seam" }
func (f *faulty) Dimensions() int { return 2 }

func newBreaker(t testing.TB, e vector.Embedder, changed func(breaker.State)) *vector.Breaker {
	t.Helper()
	config := vector.DefaultBreakerConfig()
	config.Changed = changed
	b, err := vector.NewBreaker(config, e)
	must.OK(t, err)
	return b
}

func call(ctx context.Context, e vector.Embedder) error {
	_, err := e.Embed(ctx, []string{"a"})
	return err
}

func wantAway(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, engine.ErrAway) || engine.KindOf(err) != engine.Transient || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%v), want away because of %q", err, engine.KindOf(err), text)
	}
}

// Promise(away/embedding-breaker)
func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{err: errDown}
		var heard []bool
		b := newBreaker(t, f, func(s breaker.State) { heard = append(heard, s.Open) })
		for range 4 {
			if err := call(t.Context(), b); !errors.Is(err, errDown) || errors.Is(err, engine.ErrAway) {
				t.Fatalf("while closed: %v", err)
			}
		}
		f.set(nil) // a success in between begins the count anew
		must.OK(t, call(t.Context(), b))
		f.set(errDown)
		for range 4 {
			if err := call(t.Context(), b); errors.Is(err, engine.ErrAway) {
				t.Fatalf("open too early: %v", err)
			}
		}
		opened := time.Now()
		wantAway(t, call(t.Context(), b), "503")
		asked := f.calls
		time.Sleep(5*time.Second - time.Nanosecond)
		wantAway(t, call(t.Context(), b), "503")
		if s := b.State(); f.calls != asked || !s.Open || !s.Since.Equal(opened) || !errors.Is(s.Cause, errDown) {
			t.Errorf("%d calls while open, state %+v", f.calls-asked, s)
		}

		time.Sleep(2 * time.Nanosecond) // one may try: it fails, and nothing changes but the time
		wantAway(t, call(t.Context(), b), "503")
		wantAway(t, call(t.Context(), b), "503")
		if s := b.State(); f.calls != asked+1 || !s.Since.Equal(opened) {
			t.Errorf("%d calls when half-open, state %+v", f.calls-asked, s)
		}
		f.set(nil)
		time.Sleep(6 * time.Second)
		if err := call(t.Context(), b); err != nil || b.State().Open {
			t.Errorf("not closed by a success: %v, %+v", err, b.State())
		}
		if fmt.Sprint(heard) != "[true false]" {
			t.Errorf("heard %v", heard)
		}
		if n := b.State().Opened; n != 1 {
			t.Errorf("opened %d times", n)
		}
	})
}

// What waiting cannot help opens at once, and is nobody's configuration fault:
// the events that need no phrase go on.
func TestBreakerOpensAtOnce(t *testing.T) {
	for _, failure := range []error{errKey, errQuota, &vector.PauseError{Pause: time.Minute, Err: errDown}} {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{err: failure}
			b := newBreaker(t, f, nil)
			wantAway(t, call(t.Context(), b), failure.Error())
			wantAway(t, call(t.Context(), b), failure.Error())
			if s := b.State(); f.calls != 1 || !s.Open || !errors.Is(s.Cause, failure) {
				t.Errorf("%d calls, state %+v", f.calls, s)
			}
			f.set(nil)
			time.Sleep(6 * time.Second)
			asked := vector.PauseOf(failure) > 6*time.Second
			if err := call(t.Context(), b); (err != nil) != asked {
				t.Errorf("after 6 s: %v", err)
			}
			time.Sleep(time.Minute)
			if err := call(t.Context(), b); err != nil || b.State().Open {
				t.Errorf("after a minute: %v", err)
			}
			// What opened it is forgotten: the next plain failure is one of five.
			f.set(errDown)
			if err := call(t.Context(), b); errors.Is(err, engine.ErrAway) {
				t.Errorf("one failure opened it again: %v", err)
			}
		})
	}
}

// A short pause is waited out by whoever comes, and counts as one failure.
func TestBreakerWaitsOutAShortPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{err: &vector.PauseError{Pause: time.Second, Err: errDown}}
		b := newBreaker(t, f, nil)
		if err := call(t.Context(), b); !errors.Is(err, errDown) || errors.Is(err, engine.ErrAway) {
			t.Fatalf("got %v", err)
		}
		f.set(nil)
		begun := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := call(short, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who would not wait got %v", err)
		}
		if err := call(t.Context(), b); err != nil || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// The other side's clock may be wrong by years.
func TestBreakerBoundsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{err: &vector.PauseError{Pause: 24 * 365 * time.Hour, Err: errDown}}
		b := newBreaker(t, f, nil)
		wantAway(t, call(t.Context(), b), "503")
		f.set(nil)
		time.Sleep(15*time.Minute + time.Second)
		if err := call(t.Context(), b); err != nil {
			t.Error(err)
		}
	})
}

// A refused phrase is an answer, a caller that left says nothing.
func TestBreakerCountsFailuresOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{err: errDown}
		b := newBreaker(t, f, nil)
		for range 4 {
			_ = call(t.Context(), b)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			if err := call(gone, b); !errors.Is(err, errDown) {
				t.Fatal(err)
			}
		}
		f.set(errRefused)
		for range 10 {
			if err := call(t.Context(), b); engine.KindOf(err) != engine.Permanent {
				t.Fatal(err)
			}
		}
		f.set(errDown)
		for range 4 { // the answers began the count anew
			_ = call(t.Context(), b)
		}
		if b.State().Open {
			t.Fatal("open after 4 failures")
		}
		wantAway(t, call(t.Context(), b), "503")

		f.set(errRefused) // and one closes it
		time.Sleep(6 * time.Second)
		if err := call(t.Context(), b); engine.KindOf(err) != engine.Permanent || b.State().Open {
			t.Errorf("%v, %+v", err, b.State())
		}
	})
}

// When it may try, one of many callers does.
func TestBreakerLetsOneTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{embedder: embedder{embed: func([]string) ([][]float32, error) { return nil, errKey }}}
		b := newBreaker(t, r, nil)
		wantAway(t, call(t.Context(), b), "OPENAI_API_KEY")
		r.latency = time.Second
		r.embed = lengths
		time.Sleep(6 * time.Second)
		var wg sync.WaitGroup
		var mu sync.Mutex
		good := 0
		for range 20 {
			wg.Go(func() {
				if call(t.Context(), b) == nil {
					mu.Lock()
					good++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if good != 1 || len(r.calls()) != 3 { // an ordinary phrase, and then its own
			t.Errorf("%d answers, %d calls", good, len(r.calls()))
		}
	})
}

func TestBreakerConfigValidate(t *testing.T) {
	if _, err := vector.NewBreaker(vector.BreakerConfig{LongestPause: -1}, nil); err == nil {
		t.Error("nothing was found wrong")
	}
}

func newPatient(t testing.TB, config vector.RetryingConfig, e vector.Embedder) *vector.Retrying {
	t.Helper()
	p, err := vector.NewRetrying(config, e)
	must.OK(t, err)
	return p
}

func TestPatientTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{err: &vector.PauseError{Pause: 40 * time.Second, Err: errDown}}
		p := newPatient(t, vector.DefaultRetryingConfig(), f)
		time.AfterFunc(time.Minute, func() { f.set(nil) })
		begun := time.Now()
		if err := call(t.Context(), p); err != nil || f.calls != 3 || time.Since(begun) != 80*time.Second {
			t.Errorf("%v after %d calls and %v", err, f.calls, time.Since(begun))
		}
	})
}

func TestPatientGivesUp(t *testing.T) {
	for _, tc := range []struct {
		err   error
		calls int
	}{{errDown, 8}, {errKey, 1}, {errRefused, 1}, {errQuota, 1}} {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{err: tc.err}
			if err := call(t.Context(), newPatient(t, vector.DefaultRetryingConfig(), f)); !errors.Is(err, tc.err) || f.calls != tc.calls {
				t.Errorf("%v after %d calls, want %d", err, f.calls, tc.calls)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		f := &faulty{err: errDown}
		if err := call(ctx, newPatient(t, vector.DefaultRetryingConfig(), f)); !errors.Is(err, errDown) || f.calls != 1 {
			t.Errorf("%v after %d calls", err, f.calls)
		}
	})
}

// In front of a breaker, a call is repeated until the breaker has judged; not one
// that fails late, or whose other side asks for a longer pause.
//
// Promise(away/embedding-breaker)
func TestPatientLeavesTheJudgementToTheBreaker(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		calls int
		away  bool
	}{"quick": {errDown, 6, true}, "asks for a pause": {&vector.PauseError{Pause: 10 * time.Second, Err: errDown}, 1, true}, "refused": {errRefused, 1, false}} {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{err: tc.err}
			b, err := vector.NewBreaker(vector.DefaultBreakerConfig(), f)
			must.OK(t, err)
			p := newPatient(t, vector.RetryingConfig{Attempts: 5, Pause: 100 * time.Millisecond, Within: 2 * time.Second}, b)
			begun := time.Now()
			if err := call(t.Context(), p); f.calls != tc.calls || errors.Is(err, engine.ErrAway) != tc.away || time.Since(begun) > 2*time.Second {
				t.Errorf("%s: %v after %d calls and %v", name, err, f.calls, time.Since(begun))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{}
		p := newPatient(t, vector.RetryingConfig{Attempts: 5, Pause: 100 * time.Millisecond, Within: 2 * time.Second}, h)
		begun := time.Now()
		if err := call(t.Context(), p); err == nil || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %v, want one call that hangs", err, time.Since(begun))
		}
	})
}

func TestPatientKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := vector.DefaultRetryingConfig()
		config.PerSecond = 2
		f := &faulty{}
		p := newPatient(t, config, f)
		begun := time.Now()
		for range 5 {
			must.OK(t, call(t.Context(), p))
		}
		if time.Since(begun) != 2*time.Second {
			t.Errorf("5 calls took %v", time.Since(begun))
		}
	})
	if _, err := vector.NewRetrying(vector.RetryingConfig{PerSecond: -1}, nil); err == nil {
		t.Error("nothing was found wrong")
	}
}
