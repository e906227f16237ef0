package recommend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/explain"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/explanation"
	"keyfold/source/catalog/index"
)

const dimensions = 12

// world is a shop in memory.
type world struct {
	profiles map[int32]*profile.Profile
	events   map[int32][]explanation.Event
	counts   map[int32]int64
	counted  atomic.Int32
	away     error
	products *index.Index
	laws     profile.Config
}

func newWorld() *world {
	w := &world{profiles: map[int32]*profile.Profile{}, events: map[int32][]explanation.Event{}, counts: map[int32]int64{}, laws: profile.DefaultConfig()}
	w.laws.Dimensions, w.laws.Model = dimensions, "m"
	w.products = index.New(dimensions, "m")
	random := rand.New(rand.NewPCG(1, 2))
	for id := range int32(60) {
		v := make([]float32, dimensions)
		for i := range v {
			v[i] = float32(random.NormFloat64())
		}
		w.products.Put(profile.Product{ID: id + 1, Name: fmt.Sprint("product ", id+1), Category: string('a' + id%3), Vector: v})
	}
	return w
}

func (w *world) Load(_ context.Context, users []int32) (all []*profile.Profile, err error) {
	for _, user := range users {
		all = append(all, w.profiles[user])
	}
	return all, w.away
}

func (w *world) Events(_ context.Context, user int32, _ *profile.Profile) ([]explanation.Event, string, error) {
	return w.events[user], "", w.away
}

func (w *world) Products(_ context.Context, user int32, bought bool) (ids []int32, err error) {
	for _, e := range w.events[user] {
		if e.ProductID != 0 && (!bought || e.Type == profile.ProductPurchase) {
			ids = append(ids, e.ProductID)
		}
	}
	return ids, w.away
}

func (w *world) Counts(context.Context, int) (map[int32]int64, error) {
	w.counted.Add(1)
	return w.counts, w.away
}

func (w *world) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	all := make([]engine.Resolved, len(phrases))
	for i, phrase := range phrases {
		v := make([]float64, dimensions)
		v[len(phrase)%dimensions] = 1
		all[i].Vector = v
	}
	return all
}

func (w *world) recommender(t *testing.T) *Recommender {
	r, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, History: w, Phrases: w, Laws: w.laws})
	must.OK(t, err)
	return r
}

// did adds an event of user 7, and folds all again.
func (w *world) did(t *testing.T, kind profile.EventType, product int32, phrase string, ago time.Duration) {
	t.Helper()
	at := engine.Millis(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(-ago).UnixMilli())
	w.events[7] = append(w.events[7], explanation.Event{Event: profile.Event{
		UserID: 7, Type: kind, ProductID: product, Phrase: phrase, OccurredAt: at, MessageID: fmt.Sprint("id ", len(w.events[7])),
	}})
	w.fold(t)
}

func (w *world) fold(t *testing.T) {
	t.Helper()
	events := slices.Clone(w.events[7])
	slices.SortFunc(events, func(a, b explanation.Event) int { return a.Compare(&b.Event) })
	var steps []profile.Step
	for _, e := range events {
		weight, err := w.laws.Weights.Of(e.Type)
		must.OK(t, err)
		vector := w.Resolve(t.Context(), []string{e.Phrase})[0].Vector
		if e.ProductID != 0 {
			_, vector, _ = w.products.Product(e.ProductID)
		}
		steps = append(steps, profile.Step{Vector: vector, Weight: weight, At: e.OccurredAt})
	}
	state := w.laws.Fold(profile.State{}, steps)
	w.profiles[7] = &profile.Profile{
		UserID: 7, Version: int32(len(events)), Vector: state.Vector, Mass: state.Mass, Updated: state.Updated, History: profile.Mass, Model: "m",
		Short: w.laws.FoldShort(profile.Short{}, 0, steps),
	}
}

func ids(a *Answer) (all []int32) {
	for _, p := range a.Products {
		all = append(all, p.ID)
	}
	return all
}

// A user gets the nearest products, without what was bought or seen where that is asked
// for, of one category where one is named.
//
// Promise(recommend/filters): A user is recommended the nearest products, on request without those bought or seen, and of one category.
func TestForUser(t *testing.T) {
	w := newWorld()
	w.did(t, profile.ProductPurchase, 5, "", time.Hour)
	w.did(t, profile.ProductView, 6, "", time.Minute)
	r := w.recommender(t)
	o := DefaultOptions()
	all, err := r.ForUser(t.Context(), 7, o)
	if err != nil || all.Basis != ByProfile || len(all.Products) != 10 || all.Version != 2 || !slices.Contains(ids(all), 5) || !slices.Contains(ids(all), 6) {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, p := range all.Products {
		_, unit, _ := w.products.Product(p.ID)
		if want := floats.Dot(unit, w.profiles[7].Vector); p.Score-want > 1e-9 || want-p.Score > 1e-9 {
			t.Errorf("product %d has the score %v, want %v", p.ID, p.Score, want)
		}
		if i > 0 && p.Score > all.Products[i-1].Score {
			t.Errorf("not in order: %+v", all.Products)
		}
	}
	o.Exclude = ExcludeBought
	if a, err := r.ForUser(t.Context(), 7, o); err != nil || slices.Contains(ids(a), 5) || !slices.Contains(ids(a), 6) || len(a.Products) != 10 {
		t.Errorf("without bought: %+v, %v", a, err)
	}
	o.Exclude, o.Category, o.K = ExcludeSeen, "b", 100
	a, err := r.ForUser(t.Context(), 7, o)
	if err != nil || len(a.Products) == 0 || slices.Contains(ids(a), 5) || slices.Contains(ids(a), 6) ||
		slices.ContainsFunc(a.Products, func(p Product) bool { return p.Category != "b" }) {
		t.Errorf("unseen of b: %+v, %v", a, err)
	}
}

// The shares that an answer names and the remainder's are those of the score, with a mix
// too, and all of them add up to 1.
//
// Promise(recommend/reasons): Each recommended product names the events with the largest shares of its score, also of a mix of two vectors.
func TestReasons(t *testing.T) {
	w := newWorld()
	w.laws.ShortHalfLife = time.Minute
	w.did(t, profile.ProductPurchase, 5, "", 50*time.Hour)
	w.did(t, profile.Search, 0, "trail", time.Minute)
	r := w.recommender(t)
	o := DefaultOptions()
	o.Explain = true
	a, err := r.ForUser(t.Context(), 7, o)
	if err != nil || a.Mix != 0.5 {
		t.Fatalf("%+v, %v", a, err)
	}
	query, _ := w.profiles[7].Mixed(0.5)
	for _, p := range a.Products {
		_, unit, _ := w.products.Product(p.ID)
		if d := floats.Dot(query, unit) - p.Score; d > 1e-9 || d < -1e-9 {
			t.Errorf("product %d: %v is not of the mix", p.ID, p.Score)
		}
		sum := p.Remainder
		for _, part := range p.Because {
			sum += part.Share
		}
		if len(p.Because) != 2 || sum < 1-1e-6 || sum > 1+1e-6 {
			t.Errorf("product %d: the shares add up to %v: %+v", p.ID, sum, p.Because)
		}
	}
	if first := a.Products[0]; first.ID == 5 && first.Because[0].Type != "product_purchase" {
		t.Errorf("%+v", first)
	}
	o.Mix = 0
	if plain, err := r.ForUser(t.Context(), 7, o); err != nil || plain.Mix != 0 || slices.Equal(ids(plain), ids(a)) && plain.Products[0].Score == a.Products[0].Score {
		t.Errorf("without a mix: %+v, %v", plain, err)
	}
	w.profiles[7].Short = profile.Short{}
	o.Mix = 0.5
	if _, err := r.ForUser(t.Context(), 7, o); engine.ReasonOf(err) != "mix_unavailable" || engine.KindOf(err) != engine.Permanent {
		t.Errorf("a mix without a second vector: %v", err)
	}
}

// An answer that is spread has products of more categories and less like each other.
func TestDiversity(t *testing.T) {
	w := newWorld()
	w.did(t, profile.ProductPurchase, 5, "", time.Hour)
	r := w.recommender(t)
	likeness := func(diversity float64) (mean float64, first int32) {
		o := DefaultOptions()
		o.Diversity, o.K = diversity, 5
		a, err := r.ForUser(t.Context(), 7, o)
		if err != nil || len(a.Products) != 5 {
			t.Fatalf("%+v, %v", a, err)
		}
		for i, p := range a.Products {
			for _, q := range a.Products[:i] {
				_, x, _ := w.products.Product(p.ID)
				_, y, _ := w.products.Product(q.ID)
				mean += like(index.Found{Item: index.Item{Category: p.Category}}, index.Found{Item: index.Item{Category: q.Category}}, x, y) / 10
			}
		}
		return mean, a.Products[0].ID
	}
	near, first := likeness(0)
	last := near
	for _, diversity := range []float64{0.3, 0.6, 1} {
		spread, still := likeness(diversity)
		if spread > last+1e-9 || diversity < 1 && still != first {
			t.Errorf("diversity %v: likeness %v after %v, first %d", diversity, spread, last, still)
		}
		last = spread
	}
	if last > near-0.1 {
		t.Errorf("%v against %v", last, near)
	}
}

// A user without a profile gets what is popular, and so does an erased user; none gets erased
// products.
//
// Promise(recommend/cold-start): A user without a profile, or erased, gets the products with the most events of the last days.
func TestColdStart(t *testing.T) {
	w := newWorld()
	w.counts = map[int32]int64{3: 50, 9: 70, 4: 60, 999: 1000}
	w.profiles[8] = &profile.Profile{UserID: 8, Version: 3, ErasedAt: 1}
	r := w.recommender(t)
	o := DefaultOptions()
	for _, user := range []int32{8, 9} {
		a, err := r.ForUser(t.Context(), user, o)
		if err != nil || a.Basis != ByPopularity || !slices.Equal(ids(a), []int32{9, 4, 3}) || a.Products[0].Score != 70 || a.Version != 0 {
			t.Errorf("user %d: %+v, %v", user, a, err)
		}
	}
	if n := w.counted.Load(); n != 1 {
		t.Errorf("counted %d times", n)
	}
	w.products.Remove(9)
	o.K, o.Category = 1, "a"
	if a, err := r.ForUser(t.Context(), 9, o); err != nil || !slices.Equal(ids(a), []int32{4}) {
		t.Errorf("%+v, %v", a, err)
	}
	alone, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, Laws: w.laws})
	must.OK(t, err)
	if a, err := alone.ForUser(t.Context(), 9, o); err != nil || len(a.Products) != 0 || !strings.Contains(a.Note, "history") {
		t.Errorf("without a history: %+v, %v", a, err)
	}
	o.Exclude = ExcludeSeen
	if _, err := alone.ForUser(t.Context(), 9, o); engine.ReasonOf(err) != "no_history" {
		t.Errorf("without a history: %v", err)
	}
}

// While the store is away, a profile that was read before is used, with its age, until it is
// too old; what was never read is refused, and so is all where that is chosen.
//
// Promise(recommend/store-away): While the store is away, answers are of the profiles as they were read last, with their age, or refused by choice.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.did(t, profile.ProductPurchase, 5, "", time.Hour)
		r := w.recommender(t)
		o := DefaultOptions()
		fresh, err := r.ForUser(t.Context(), 7, o)
		if err != nil || fresh.StaleSeconds != 0 {
			t.Fatalf("%+v, %v", fresh, err)
		}
		synctest.Wait() // for the count that the request began
		w.away = fmt.Errorf("%w: it is down", engine.ErrAway)
		time.Sleep(9 * time.Minute)
		stale, err := r.ForUser(t.Context(), 7, o)
		if err != nil || stale.StaleSeconds != 540 || !slices.Equal(ids(stale), ids(fresh)) {
			t.Errorf("%+v, %v", stale, err)
		}
		if _, err := r.ForUser(t.Context(), 70, o); !errors.Is(err, engine.ErrAway) {
			t.Errorf("never read: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := r.ForUser(t.Context(), 7, o); !errors.Is(err, engine.ErrAway) {
			t.Errorf("too old: %v", err)
		}
		c := DefaultConfig()
		c.StaleFor = 0
		synctest.Wait()
		w.away = nil
		strict, err := New(c, Ports{Profiles: w, Products: InMemory{w.products}, History: w, Laws: w.laws})
		must.OK(t, err)
		if _, err := strict.ForUser(t.Context(), 7, o); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		w.away = fmt.Errorf("%w: it is down", engine.ErrAway)
		if _, err := strict.ForUser(t.Context(), 7, o); !errors.Is(err, engine.ErrAway) {
			t.Errorf("by choice: %v", err)
		}
	})
}

// shelf is a stored catalogue.
type shelf struct {
	sync.Mutex
	products map[int32]profile.Product
	times    map[int32]engine.Millis
	clock    engine.Millis
	reads    int // of single products
	away     error
}

func (s *shelf) put(id int32, category string) {
	s.Lock()
	defer s.Unlock()
	s.clock++
	s.products[id], s.times[id] = profile.Product{ID: id, Category: category, Vector: []float32{float32(id), 1}}, s.clock
}

func (s *shelf) ProductStreams(context.Context) []iter.Seq2[profile.Product, error] {
	return []iter.Seq2[profile.Product, error]{func(yield func(profile.Product, error) bool) {
		s.Lock()
		defer s.Unlock()
		for _, p := range s.products {
			if !yield(p, nil) {
				return
			}
		}
	}}
}

func (s *shelf) Products(_ context.Context, ids []int32) (all []profile.Product, err error) {
	s.Lock()
	defer s.Unlock()
	for _, id := range ids {
		if p, ok := s.products[id]; ok {
			s.reads++
			all = append(all, p)
		}
	}
	return all, s.away
}

func (s *shelf) ProductTimes(context.Context) iter.Seq2[profile.ProductTime, error] {
	return func(yield func(profile.ProductTime, error) bool) {
		s.Lock()
		defer s.Unlock()
		for id, at := range s.times {
			if !yield(profile.ProductTime{ID: id, WrittenAt: at}, nil) {
				return
			}
		}
		if s.away != nil {
			yield(profile.ProductTime{}, s.away)
		}
	}
}

func (s *shelf) fail(err error) {
	s.Lock()
	defer s.Unlock()
	s.away = err
}

// A product that is added, changed or deleted is right in the index within 5 s, also when
// the store was away meanwhile; only what changed is read.
//
// Promise(recommend/catalogue-follows): A product that is added, changed or deleted is right in answers within 5 s.
func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{products: map[int32]profile.Product{}, times: map[int32]engine.Millis{}}
		for id := range int32(1000) {
			s.put(id+1, "old")
		}
		x := index.New(2, "m")
		f := NewFollower(s, x, slog.New(slog.DiscardHandler))
		if f.Ready() == nil {
			t.Error("ready before it began")
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()
		synctest.Wait()
		if x.Len() != 1000 || f.Ready() != nil || s.reads != 0 {
			t.Errorf("%d products, %v, %d read", x.Len(), f.Ready(), s.reads)
		}
		s.put(2000, "new")
		s.put(5, "new")
		s.Lock()
		delete(s.products, 6)
		delete(s.times, 6)
		s.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		five, _ := x.Item(5)
		_, six := x.Item(6)
		if x.Len() != 1000 || five.Category != "new" || six || s.reads != 2 {
			t.Errorf("%d products, %+v, %v, %d read", x.Len(), five, six, s.reads)
		}
		s.fail(errors.New("away"))
		s.put(7, "new")
		time.Sleep(time.Minute)
		synctest.Wait()
		if seven, _ := x.Item(7); seven.Category != "old" || f.Age() < time.Minute || f.Ready() != nil {
			t.Errorf("%+v, %v old, %v", seven, f.Age(), f.Ready())
		}
		s.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if seven, _ := x.Item(7); seven.Category != "new" || x.Len() != 1000 || f.Age() > 5*time.Second {
			t.Errorf("%+v, %d products, %v old", seven, x.Len(), f.Age())
		}
		stop()
		<-done
	})
}

// counting is a history whose count takes its time.
type counting struct {
	*world
	takes time.Duration
	err   error
	began int
}

func (c *counting) Counts(ctx context.Context, _ int) (map[int32]int64, error) {
	c.began++
	select {
	case <-time.After(c.takes):
		return map[int32]int64{9: 70}, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Requests that came while popularity was counted for the first time share the count, its
// failure too: they do not wait for one count each.
func TestFirstCountIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := &counting{world: w, takes: 10 * time.Second, err: fmt.Errorf("%w: it is down", engine.ErrAway)}
		r, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, History: h, Laws: w.laws})
		must.OK(t, err)
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := r.ForUser(t.Context(), 9, DefaultOptions()); !errors.Is(err, engine.ErrAway) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 11*time.Second || h.began != 1 {
			t.Errorf("%d counts took %v", h.began, took)
		}
		h.err = nil
		if a, err := r.ForUser(t.Context(), 9, DefaultOptions()); err != nil || !slices.Equal(ids(a), []int32{9}) {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// A count goes on where the request that began it is given up: otherwise clients that wait for
// less than it takes would never have an answer.
func TestFirstCountOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := &counting{world: w, takes: 10 * time.Second}
		r, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, History: h, Laws: w.laws})
		must.OK(t, err)
		for n := range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			began := time.Now()
			_, err := r.ForUser(ctx, 9, DefaultOptions())
			cancel()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("request %d took %v", n, took)
			}
			if n == 7 && err != nil {
				t.Errorf("after 14 s: %v", err)
			}
		}
		if h.began != 1 {
			t.Errorf("%d counts", h.began)
		}
	})
}

// After the store was away, and after a catalogue that took long to read, a change is seen
// within seconds all the same.
func TestFollowerAfterALongRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{products: map[int32]profile.Product{}, times: map[int32]engine.Millis{}}
		s.put(1, "old")
		x := index.New(2, "m")
		f := NewFollower(slow{s}, x, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		s.fail(errors.New("away"))
		go func() { defer close(done); f.Run(ctx) }()
		time.Sleep(11 * time.Second) // a look has failed after ten
		s.fail(nil)
		time.Sleep(5*time.Second + time.Minute) // the next one takes a minute
		synctest.Wait()
		if f.Ready() != nil || x.Len() != 1 {
			t.Errorf("%v, %d products", f.Ready(), x.Len())
		}
		s.put(1, "new")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if one, _ := x.Item(1); one.Category != "new" {
			t.Errorf("%+v", one)
		}
		stop()
		<-done
	})
}

// slow is a catalogue that takes a minute to read, and ten seconds to say that it is away.
type slow struct{ *shelf }

func (s slow) ProductStreams(ctx context.Context) []iter.Seq2[profile.Product, error] {
	time.Sleep(time.Minute)
	return s.shelf.ProductStreams(ctx)
}

func (s slow) ProductTimes(ctx context.Context) iter.Seq2[profile.ProductTime, error] {
	s.Lock()
	away := s.away
	s.Unlock()
	if away != nil {
		time.Sleep(10 * time.Second)
		return func(yield func(profile.ProductTime, error) bool) { yield(profile.ProductTime{}, away) }
	}
	return s.shelf.ProductTimes(ctx)
}

// hanging is a store that does not answer while hangs is set.
type hanging struct {
	*world
	hangs bool
	asked int
}

func (h *hanging) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	h.asked++
	if h.hangs {
		select {
		case <-time.After(5 * time.Second): // as the store itself gives up
		case <-ctx.Done():
		}
		return nil, fmt.Errorf("%w: no answer in time", engine.ErrAway)
	}
	return h.world.Load(ctx, users)
}

// A store that hangs does not make answers wait whose profiles are known, and is asked seldom,
// until it answers again.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.did(t, profile.ProductPurchase, 5, "", time.Hour)
		h := &hanging{world: w}
		r, err := New(DefaultConfig(), Ports{Profiles: h, Products: InMemory{w.products}, Laws: w.laws})
		must.OK(t, err)
		ask := func() *Answer {
			began := time.Now()
			a, err := r.ForUser(t.Context(), 7, DefaultOptions())
			if took := time.Since(began); err != nil || took > time.Second {
				t.Fatalf("%v after %v", err, took)
			}
			return a
		}
		ask()
		h.hangs = true
		began := time.Now()
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if a := ask(); a.StaleSeconds == 0 {
				t.Errorf("%+v", a)
			}
		}
		if took := time.Since(began); h.asked > 25 || took > 25*time.Second {
			t.Errorf("asked %d times in %v", h.asked, took)
		}
		h.hangs = false
		time.Sleep(time.Second)
		for range 2 {
			if a := ask(); a.StaleSeconds != 0 {
				t.Errorf("the store answers: %+v", a)
			}
		}
	})
}

// A profile of a worker that names no model is taken for one of the configured model, in
// reasons too.
func TestReasonsWithoutAModel(t *testing.T) {
	w := newWorld()
	w.did(t, profile.ProductPurchase, 5, "", time.Hour)
	w.profiles[7].Model = ""
	o := DefaultOptions()
	o.Explain = true
	a, err := w.recommender(t).ForUser(t.Context(), 7, o)
	if err != nil || a.Note != "" || len(a.Products[0].Because) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// A phrase that can never have a vector is part of the remainder; one whose vector cannot be
// had now leaves the answer without reasons, with the history's note.
func TestReasonsWithoutAPhrase(t *testing.T) {
	w := newWorld()
	w.did(t, profile.ProductPurchase, 5, "", time.Hour)
	w.did(t, profile.Search, 0, "trail", time.Minute)
	o := DefaultOptions()
	o.Explain = true
	for _, test := range []struct {
		err     error
		reasons int
		note    bool
	}{{engine.PermanentError("phrase_rejected", errors.New("never")), 1, false}, {errors.New("not now"), 0, true}, {engine.ConfigurationError("no_key", errors.New("never")), 0, true}} {
		r, err := New(DefaultConfig(), Ports{Profiles: w, Products: InMemory{w.products}, History: w, Phrases: failing{test.err}, Laws: w.laws})
		must.OK(t, err)
		a, err := r.ForUser(t.Context(), 7, o)
		if err != nil || (a.Note != "") != test.note || len(a.Products) != 10 || len(a.Products[0].Because) != test.reasons {
			t.Errorf("%v: %+v, %v", test.err, a, err)
		}
	}
}

// failing has no vectors.
type failing struct{ err error }

func (f failing) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	all := make([]engine.Resolved, len(phrases))
	for i := range all {
		all[i].Err = f.err
	}
	return all
}

// Users of every kind are answered beside each other, from one known profile, while the
// catalogue changes and the store comes and goes.
func TestBesideEachOther(t *testing.T) {
	w := newWorld()
	w.laws.ShortHalfLife = time.Minute
	for n := range 40 {
		w.did(t, profile.ProductView, int32(n+1), "", time.Duration(n)*time.Minute)
	}
	w.did(t, profile.Search, 0, "trail", time.Minute)
	w.counts = map[int32]int64{3: 5}
	flaky := &flaky{world: w}
	r, err := New(DefaultConfig(), Ports{Profiles: flaky, Products: InMemory{w.products}, History: w, Phrases: w, Laws: w.laws})
	must.OK(t, err)
	if _, err := r.ForUser(t.Context(), 7, DefaultOptions()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 60 {
				o := DefaultOptions()
				o.Explain, o.Exclude, o.Diversity, o.K = i%2 == 0, []Exclusion{ExcludeNothing, ExcludeSeen}[i%2], float64(n%2)/2, 1+i
				if a, err := r.ForUser(t.Context(), 7, o); err != nil || a.Basis != ByProfile {
					t.Errorf("%+v, %v", a, err)
				}
				if _, err := r.ForUser(t.Context(), int32(100+n), DefaultOptions()); err != nil && !errors.Is(err, engine.ErrAway) {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for i := range 300 {
			id := int32(i%60 + 1)
			_, unit, _ := w.products.Product(id)
			if i%3 == 0 {
				w.products.Remove(id)
			}
			w.products.Put(profile.Product{ID: id, Category: "z", Vector: narrow(unit)})
		}
	})
	all.Wait()
}

// flaky is a store that fails every third call.
type flaky struct {
	*world
	calls atomic.Int64
}

func (f *flaky) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if f.calls.Add(1)%3 == 0 {
		return nil, engine.ErrAway
	}
	return f.world.Load(ctx, users)
}

// Many events of few products and phrases are named once each, with the sum of what they count.
func TestReasonsOfManyEvents(t *testing.T) {
	w := newWorld()
	w.laws.ShortHalfLife = 10 * time.Minute
	for n := range 60 {
		w.did(t, profile.ProductView, int32(n%3+1), "", time.Duration(n)*time.Minute)
	}
	w.did(t, profile.Search, 0, "trail", time.Minute)
	o := DefaultOptions()
	o.Explain, o.K, o.Mix = true, 60, 0.3
	a, err := w.recommender(t).ForUser(t.Context(), 7, o)
	if err != nil || len(a.Products) != 60 {
		t.Fatalf("%+v, %v", a, err)
	}
	events := make([]explain.Event, len(w.events[7]))
	for i, e := range w.events[7] {
		weight, _ := w.laws.Weights.Of(e.Type)
		vector := w.Resolve(t.Context(), []string{e.Phrase})[0].Vector
		if e.ProductID != 0 {
			_, vector, _ = w.products.Product(e.ProductID)
		}
		events[i] = explain.Event{Event: e.Event, Weight: weight, Vector: vector}
	}
	p := w.profiles[7]
	first, second := explain.Of(w.laws, p, events), explain.Second(w.laws, p, events)
	sum := floats.ScaleTo(make([]float64, dimensions), 0.7, p.Vector)
	floats.AddScaled(sum, 0.3, p.Short.Vector)
	length := floats.Norm(sum, 2)
	for _, product := range a.Products {
		_, unit, _ := w.products.Product(product.ID)
		want := map[string]float64{}
		for _, part := range first.Score(unit).Parts {
			want[fmt.Sprint(part.Event.ProductID)] += 0.7 / length * part.Score / product.Score
		}
		for _, part := range second.Score(unit).Parts {
			want[fmt.Sprint(part.Event.ProductID)] += 0.3 / length * part.Score / product.Score
		}
		for _, part := range product.Because {
			id, count := strings.TrimPrefix(part.Of, "product "), 20
			if part.Type == "search" {
				id, count = "0", 1
			}
			if d := want[id] - part.Share; d > 1e-6 || d < -1e-6 || part.Events != count {
				t.Errorf("product %d: %+v, want %v", product.ID, part, want[id])
			}
		}
	}
}
