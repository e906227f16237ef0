package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/pipeline"
	"keyfold/shard"
	sink "keyfold/sink/memory"
	"keyfold/source/sample"
)

type sickStore struct {
	*sink.Profiles
	load func(users []int32) error
	swap func(p *profile.Profile) error
}

func (s sickStore) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if s.load != nil {
		if err := s.load(users); err != nil {
			return nil, err
		}
	}
	return s.Profiles.Load(ctx, users)
}

func (s sickStore) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	errs := make([]error, len(profiles))
	for i, p := range profiles {
		if s.swap != nil {
			if errs[i] = s.swap(p); errs[i] != nil {
				continue
			}
		}
		errs[i] = s.Profiles.Swap(ctx, []*profile.Profile{p})[0]
	}
	return errs
}

type verdicts struct {
	mu  sync.Mutex
	all map[string][]engine.Verdict
}

type slip struct {
	v  *verdicts
	id string
}

func (s slip) Settle(v engine.Verdict) {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.v.all[s.id] = append(s.v.all[s.id], v)
}

func (v *verdicts) delivery(e profile.Event) profile.Delivery {
	return profile.Delivery{Event: e, Attempt: 1, Settler: slip{v, e.MessageID}}
}

func seen(user int32, id string) profile.Event {
	return profile.Event{UserID: user, Type: profile.ProductView, ProductID: 1, OccurredAt: engine.Now(), MessageID: id, Digest: profile.DigestOf(id)}
}

// failsFor fails every read that includes a user.
func failsFor(user int32, err error) func([]int32) error {
	return func(users []int32) error {
		if slices.Contains(users, user) {
			return err
		}
		return nil
	}
}

func sickPipeline(t *testing.T, store sickStore, probe func(context.Context) error) (*pipeline.Pipeline, *breaker.Breaker, *job) {
	j := newJob(t, sample.Products(), 8)
	j.windows.Clock = shard.WallClock
	j.store = store.Profiles
	config := breaker.DefaultConfig()
	config.HoldMax = 10 * time.Minute
	b, err := breaker.New(config, probe, nil)
	must.OK(t, err)
	ports, err := pipeline.Ports(j.laws, pipeline.ObserveProfiles(b.Group, store), j.shop)
	must.OK(t, err)
	ports.WaitForStore = b.Wait
	p, err := pipeline.New(j.windows, j.laws, ports)
	must.OK(t, err)
	return p, b, j
}

// A store that answers reads and takes no write (a full disk, no majority) is
// away: nobody's attempts are used.
func TestReadsDoNotHideThatNoWriteSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noWrite := errors.New("write concern: no majority")
		store := sickStore{Profiles: sink.New(8), swap: func(*profile.Profile) error { return fmt.Errorf("%w: %w", engine.ErrUnknown, noWrite) }}
		p, b, _ := sickPipeline(t, store, func(context.Context) error { return noWrite })
		v := &verdicts{all: map[string][]engine.Verdict{}}
		for i := range 20 {
			must.OK(t, p.Deliver(t.Context(), []profile.Delivery{v.delivery(seen(int32(i+1), fmt.Sprint("id", i)))}))
			time.Sleep(700 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		v.mu.Lock()
		t.Logf("breaker %+v, %d settled", b.State(), len(v.all))
		for id, got := range v.all {
			t.Errorf("%s got %v though the store takes no write at all", id, got)
			break
		}
		v.mu.Unlock()
		if !b.State().Open {
			t.Error("the breaker is closed")
		}
		b.Close()
		p.Router.Drain(context.Background())
	})
}

// A retry comes when its delay is over: no window is added to it.
//
// Promise(event/retry-delays): Retries wait 5, 10, 20, 40 and 60 s at the broker, over restarts of
// worker and broker, and in no window on top.
func TestRetriesWaitForNoWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b, _ := sickPipeline(t, sickStore{Profiles: sink.New(8)}, func(context.Context) error { return nil })
		v := &verdicts{all: map[string][]engine.Verdict{}}
		first, retry := v.delivery(seen(1, "first")), v.delivery(seen(2, "retry"))
		retry.Attempt = 2
		must.OK(t, p.Deliver(t.Context(), []profile.Delivery{first, retry}))
		synctest.Wait()
		v.mu.Lock()
		if len(v.all["retry"]) != 1 || len(v.all["first"]) != 0 {
			t.Errorf("verdicts at once: %v", v.all)
		}
		v.mu.Unlock()
		b.Close()
		p.Router.Drain(context.Background())
	})
}

// A user whose own read always fails, alone at night: its events are tried
// again later, and the breaker does not stand in for that for ever.
func TestSickUserAloneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := errors.New("executor error in this document's extent")
		store := sickStore{Profiles: sink.New(8), load: failsFor(13, sick)}
		opened := 0
		p, b, _ := sickPipeline(t, store, func(context.Context) error { opened++; return nil })
		v := &verdicts{all: map[string][]engine.Verdict{}}
		must.OK(t, p.Deliver(t.Context(), []profile.Delivery{v.delivery(seen(13, "sick"))}))
		time.Sleep(40 * time.Minute) // beyond RabbitMQ's consumer timeout
		v.mu.Lock()
		if len(v.all["sick"]) != 1 {
			t.Errorf("after 40 minutes the event has no verdict; the store's breaker was opened %d times", b.State().Opened)
		}
		v.mu.Unlock()
		b.Close()
		p.Router.Drain(context.Background())
	})
}

// One user's read that fails is that user's matter.
func TestSickUserTakesMatesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := errors.New("executor error in this document's extent")
		store := sickStore{Profiles: sink.New(8), load: failsFor(13, sick)}
		p, b, _ := sickPipeline(t, store, func(context.Context) error { return nil })
		v := &verdicts{all: map[string][]engine.Verdict{}}
		var ds []profile.Delivery
		for u := range int32(40) {
			ds = append(ds, v.delivery(seen(u+1, fmt.Sprint("id", u+1))))
		}
		must.OK(t, p.Deliver(t.Context(), ds))
		// healthy traffic keeps the breaker closed
		for i := range 400 {
			time.Sleep(100 * time.Millisecond)
			must.OK(t, p.Deliver(t.Context(), []profile.Delivery{v.delivery(seen(int32(1000+i), fmt.Sprint("other", i)))}))
		}
		time.Sleep(2 * time.Minute)
		v.mu.Lock()
		n := 0
		for u := range int32(40) {
			got := v.all[fmt.Sprint("id", u+1)]
			if u+1 != 13 && (len(got) != 1 || got[0].Outcome != engine.Folded) {
				if n == 0 {
					t.Errorf("user %d is healthy and got %v", u+1, got)
				}
				n++
			}
		}
		v.mu.Unlock()
		t.Logf("%d healthy users of 39 not folded; breaker opened %d times", n, b.State().Opened)
		b.Close()
		p.Router.Drain(context.Background())
	})
}

type awayShop struct{ shop }

func (awayShop) Products(context.Context, []int32) ([]profile.Product, error) {
	return nil, errors.New("product_embeddings: i/o timeout")
}

// A catalogue that is away costs no attempt, also while profiles can be read.
func TestAwayCatalogueCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJob(t, sample.Products(), 8)
		j.windows.Clock = shard.WallClock
		b, err := breaker.New(breaker.DefaultConfig(), func(context.Context) error { return nil }, nil)
		must.OK(t, err)
		reads := metric.NewCalls()
		ports, err := pipeline.Ports(j.laws, pipeline.ObserveProfiles(b.Group, j.store), pipeline.ObserveProducts(b.Group(), reads, awayShop{j.shop}))
		must.OK(t, err)
		ports.WaitForStore = b.Wait
		p, err := pipeline.New(j.windows, j.laws, ports)
		must.OK(t, err)
		v := &verdicts{all: map[string][]engine.Verdict{}}
		search := seen(2, "search")
		search.Type, search.ProductID, search.Phrase = profile.Search, 0, "mug"
		must.OK(t, p.Deliver(t.Context(), []profile.Delivery{v.delivery(seen(1, "view")), v.delivery(search)}))
		time.Sleep(5 * time.Minute)
		v.mu.Lock()
		t.Logf("breaker %+v; view %v; search of another user %v", b.State(), v.all["view"], v.all["search"])
		if reads.Count() == 0 {
			t.Error("no read of products was timed")
		}
		if got := v.all["view"]; len(got) > 0 && got[0].Outcome == engine.Retry {
			t.Error("the view used an attempt")
		}
		if got := v.all["search"]; len(got) != 1 || got[0].Outcome != engine.Folded {
			t.Error("the search of another user, who needs no product, was not folded")
		}
		v.mu.Unlock()
		b.Close()
		p.Router.Drain(context.Background())
	})
}

// The store goes away while the worker is stopping: that costs no attempt.
func TestStoreAwayWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		store := sickStore{Profiles: sink.New(8), load: func([]int32) error { return down }}
		p, b, _ := sickPipeline(t, store, func(context.Context) error { return down })
		v := &verdicts{all: map[string][]engine.Verdict{}}
		must.OK(t, p.Deliver(t.Context(), []profile.Delivery{v.delivery(seen(1, "a"))}))
		b.Close() // cmd/keyfold/shutdown.go: before Drain
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Second)
		defer cancel()
		p.Router.Drain(ctx)
		v.mu.Lock()
		defer v.mu.Unlock()
		if got := v.all["a"]; len(got) != 1 || got[0].Outcome != engine.Unsettled {
			t.Errorf("got %v, want hold", got)
		}
	})
}
