package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/worker"
)

// service answers phrases after a while; it counts calls.
type service struct {
	mu    sync.Mutex
	calls map[string]int
	after func(phrase string) time.Duration
	fail  func(phrase string) error
}

func newService(after time.Duration) *service {
	return &service{
		calls: map[string]int{},
		after: func(string) time.Duration { return after },
		fail:  func(string) error { return nil },
	}
}

func (s *service) Resolve(ctx context.Context, phrases []string) []engine.Resolved {
	answers := make([]engine.Resolved, len(phrases))
	for i, phrase := range phrases {
		s.mu.Lock()
		s.calls[phrase]++
		wait, err := s.after(phrase), s.fail(phrase)
		s.mu.Unlock()
		select {
		case <-time.After(wait):
			answers[i] = engine.Resolved{Vector: []float64{1}, Err: err}
		case <-ctx.Done():
			answers[i].Err = context.Cause(ctx)
		}
	}
	return answers
}

// windows are what the prefetcher hands on to.
type windows struct {
	mu   sync.Mutex
	ids  []string
	held []string
	err  error
}

// deliver takes all or none, and settles what it does not take.
func (w *windows) deliver(_ context.Context, deliveries []profile.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range deliveries {
		if id := deliveries[i].Event.MessageID; w.err == nil {
			w.ids = append(w.ids, id)
		} else {
			w.held = append(w.held, id)
		}
	}
	return w.err
}

func (w *windows) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ids)
}

func (w *windows) event(id, phrase string) profile.Delivery {
	e := profile.Event{UserID: 1, ProductID: 1, Type: profile.ProductView, MessageID: id}
	if phrase != "" {
		e.ProductID, e.Type, e.Phrase = 0, profile.Search, phrase
	}
	return profile.Delivery{Event: e}
}

// Product events go on at once. Searches of one phrase share a call and go on
// when it is answered, whatever becomes of other phrases.
//
// Promise(away/faulty-embedding)
func TestSearchesWaitAndProductEventsDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w windows
		s := newService(time.Second)
		s.after = func(phrase string) time.Duration {
			if phrase == "hangs" {
				return time.Hour
			}
			return time.Second
		}
		r := worker.NewPrefetcher(s, time.Minute, w.deliver)
		for range 2 {
			must.OK(t, r.Deliver(t.Context(), []profile.Delivery{w.event("s1", "mug"), w.event("v", ""), w.event("s2", "hangs"), w.event("s3", "mug")}))
		}
		synctest.Wait()
		if got := w.all(); !slices.Equal(got, []string{"v", "v"}) || r.Waiting() != 6 {
			t.Errorf("at once %v, %d wait", got, r.Waiting())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.all(); !slices.Equal(got, []string{"v", "v", "s1", "s3", "s1", "s3"}) || r.Waiting() != 2 {
			t.Errorf("after a second %v, %d wait", got, r.Waiting())
		}
		if s.calls["mug"] != 1 || s.calls["hangs"] != 1 {
			t.Errorf("calls %v", s.calls)
		}
		r.Release(t.Context())
		r.Close()
		if got := w.all(); len(got) != 8 || r.Waiting() != 0 {
			t.Errorf("in the end %v", got)
		}
	})
}

// A failure is the answer of the flush that follows, without another call; the
// next search of the phrase asks again, and its answer counts.
//
// Promise(away/faulty-embedding)
func TestFailureAnswersTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w windows
		s := newService(time.Second)
		away := fmt.Errorf("the service: %w", engine.ErrAway)
		s.fail = func(string) error { return away }
		r := worker.NewPrefetcher(s, 3*time.Second, w.deliver)
		defer r.Close()
		search := func(id string) {
			t.Helper()
			must.OK(t, r.Deliver(t.Context(), []profile.Delivery{w.event(id, "mug")}))
			time.Sleep(time.Second)
			synctest.Wait()
		}
		search("first")
		if got := w.all(); !slices.Equal(got, []string{"first"}) {
			t.Fatalf("a search that failed is kept: %v", got)
		}
		began := time.Now()
		if a := r.Resolve(t.Context(), []string{"mug"})[0]; !errors.Is(a.Err, engine.ErrAway) || time.Since(began) != 0 || s.calls["mug"] != 1 {
			t.Errorf("%v after %v and %d calls", a.Err, time.Since(began), s.calls["mug"])
		}
		s.fail = func(string) error { return nil }
		search("second")
		if a := r.Resolve(t.Context(), []string{"mug"})[0]; a.Err != nil {
			t.Errorf("after a success: %v", a.Err)
		}

		s.fail = func(string) error { return away }
		search("third")
		s.fail = func(string) error { return nil }
		time.Sleep(time.Minute)
		if a := r.Resolve(t.Context(), []string{"mug"})[0]; a.Err != nil {
			t.Errorf("a minute after a failure: %v", a.Err)
		}
	})
}

// A search whose call takes too long goes on without a vector. Its flush looks for
// the vector once more, also beside phrases that are at hand.
//
// Promise(away/faulty-embedding)
func TestLateSearchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w windows
		s := newService(time.Hour)
		r := worker.NewPrefetcher(s, 3*time.Second, w.deliver)
		defer r.Close()
		must.OK(t, r.Deliver(t.Context(), []profile.Delivery{w.event("s", "mug")}))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := w.all(); !slices.Equal(got, []string{"s"}) || r.Waiting() != 0 {
			t.Errorf("after its timeout %v, %d wait", got, r.Waiting())
		}
		s.after = func(phrase string) time.Duration {
			if phrase == "mug" {
				return time.Hour
			}
			return 0 // at hand
		}
		began := time.Now()
		if a := r.Resolve(t.Context(), []string{"cup", "mug"}); a[0].Err != nil || engine.ReasonOf(a[1].Err) != "embedding_late" || time.Since(began) > time.Second {
			t.Errorf("%v, %v after %v", a[0].Err, a[1].Err, time.Since(began))
		}
		s.after = func(string) time.Duration { return 0 } // it has come
		if a := r.Resolve(t.Context(), []string{"mug"})[0]; a.Err != nil {
			t.Error(a.Err)
		}
	})
}

// A flush that needs what did not wait here waits no longer than the timeout:
// what is late fails for now, by itself.
func TestFlushWaitsNoLongerThanTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(10 * time.Second)
		r := worker.NewPrefetcher(s, 3*time.Second, nil)
		defer r.Close()
		began := time.Now()
		a := r.Resolve(t.Context(), []string{"mug"})[0]
		if engine.KindOf(a.Err) != engine.Transient || engine.ReasonOf(a.Err) != "embedding_late" || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", a.Err, time.Since(began))
		}
	})
}

// When the worker stops, what waits goes on or goes back, all of it once, however
// the two meet.
func TestStoppingHandsOnEveryDeliveryOnce(t *testing.T) {
	const n = 300
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var w windows
		s := newService(0)
		s.after = func(string) time.Duration { return time.Duration(len(s.calls)%7) * time.Millisecond }
		if seed%2 == 1 {
			s.fail = func(phrase string) error {
				if phrase == "phrase 1" {
					return errors.New("failed")
				}
				return nil
			}
		}
		r := worker.NewPrefetcher(s, time.Second, w.deliver)
		var senders sync.WaitGroup
		for sender := range 3 {
			phrases := make([]string, n)
			for i := range phrases {
				if random.IntN(2) == 0 {
					phrases[i] = fmt.Sprintf("phrase %d", random.IntN(20))
				}
			}
			senders.Go(func() {
				for i, phrase := range phrases {
					d := w.event(fmt.Sprintf("%d-%d", sender, i), phrase)
					_ = r.Deliver(context.Background(), []profile.Delivery{d}) // refused ones are among the held
				}
			})
		}
		stop := time.Duration(random.IntN(5)) * time.Millisecond
		time.Sleep(stop)
		if seed%3 == 0 { // the windows do not take anything any more
			w.mu.Lock()
			w.err = errors.New("draining")
			w.mu.Unlock()
		}
		r.Release(t.Context())
		senders.Wait()
		r.Close()
		all := append(w.all(), w.held...)
		slices.Sort(all)
		if len(all) != 3*n || len(slices.Compact(all)) != 3*n || r.Waiting() != 0 {
			t.Fatalf("seed %d: %d deliveries handed on or back, want each of %d once", seed, len(all), 3*n)
		}
	}
}

// A stop waits for windows that have no room no longer than it may: what they do
// not take by then goes back.
func TestReleaseIntoFullWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w windows
		full := func(ctx context.Context, deliveries []profile.Delivery) error {
			<-ctx.Done()
			w.mu.Lock()
			w.err = ctx.Err()
			w.mu.Unlock()
			return w.deliver(ctx, deliveries)
		}
		r := worker.NewPrefetcher(newService(time.Hour), time.Hour, full)
		must.OK(t, r.Deliver(t.Context(), []profile.Delivery{w.event("a", "red shoes"), w.event("b", "hat")}))
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		began := time.Now()
		r.Release(ctx)
		if took := time.Since(began); took != 6*time.Second || len(w.held) != 2 || r.Waiting() != 0 {
			t.Errorf("after %v: %d went back, %d wait", took, len(w.held), r.Waiting())
		}
		r.Close()
	})
}
