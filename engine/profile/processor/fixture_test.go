package processor_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
	"keyfold/proof/oracle"
	"keyfold/sink/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dimensions = 16

// fixture is an engine over a store in memory, with seams to break it.
type fixture struct {
	*processor.Engine
	store  *memory.Profiles
	ports  portFuncs
	faults []error
	config processor.Config
	await  func(context.Context) (bool, error)
	log    *slog.Logger
}

// portFuncs are the seams: each is called where it is set.
type portFuncs struct {
	mu     sync.Mutex
	load   func(ctx context.Context, users []int32) ([]*profile.Profile, error)
	swap   func(ctx context.Context, profiles []*profile.Profile) []error
	now    func() engine.Millis
	vector func(key string) (engine.Resolved, bool)

	loads, swaps, lookups int
	asked                 map[string]int
}

func newFixture(t tb, change ...func(*processor.Config)) *fixture {
	t.Helper()
	f := &fixture{store: memory.New(dimensions), config: processor.DefaultConfig()}
	f.ports.asked = map[string]int{}
	f.config.Dimensions = dimensions
	for _, c := range change {
		c(&f.config)
	}
	f.Engine = f.engine(t)
	return f
}

// engine returns another worker on the same store.
func (f *fixture) engine(t tb) *processor.Engine {
	t.Helper()
	e, err := processor.New(f.config, processor.Ports{
		Profiles:      f,
		Products:      resolver[int32]{&f.ports, "product"},
		Phrases:       resolver[string]{&f.ports, "phrase"},
		WaitForStore:  f.await,
		Log:           f.log,
		OnConfigError: func(err error) { f.faults = append(f.faults, err) },
	})
	must.OK(t, err)
	return e
}

func (f *fixture) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	f.ports.count(&f.ports.loads)
	if f.ports.load != nil {
		return f.ports.load(ctx, users)
	}
	return f.store.Load(ctx, users)
}

func (f *fixture) Now(ctx context.Context) (engine.Millis, error) {
	if f.ports.now != nil {
		return f.ports.now(), nil
	}
	return f.store.Now(ctx)
}

func (f *fixture) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	f.ports.count(&f.ports.swaps)
	if f.ports.swap != nil {
		return f.ports.swap(ctx, profiles)
	}
	return f.store.Swap(ctx, profiles)
}

func (p *portFuncs) count(n *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
}

// resolver answers with a vector made of the key.
type resolver[K comparable] struct {
	ports *portFuncs
	kind  string
}

func (r resolver[K]) Resolve(_ context.Context, keys []K) []engine.Resolved {
	r.ports.mu.Lock()
	defer r.ports.mu.Unlock()
	r.ports.lookups++
	all := make([]engine.Resolved, len(keys))
	for i, k := range keys {
		name := fmt.Sprint(r.kind, " ", k)
		r.ports.asked[name]++
		if r.ports.vector != nil {
			if answer, ok := r.ports.vector(name); ok {
				all[i] = answer
				continue
			}
		}
		all[i].Vector = vectorOf(name)
	}
	return all
}

func vectorOf(name string) []float64 {
	d := profile.DigestOf(name)
	r := rand.New(rand.NewPCG(uint64(d[0])<<8|uint64(d[1]), uint64(d[2])))
	raw := make([]float32, dimensions)
	for i := range raw {
		raw[i] = float32(r.NormFloat64())
	}
	v, err := engine.Unit(raw, dimensions)
	if err != nil {
		panic(err)
	}
	return v
}

// letter is one delivery and the verdicts it got.
type letter struct {
	event     profile.Event
	firstSeen engine.Millis
	arrived   time.Time
	mu        sync.Mutex
	verdicts  []engine.Verdict
}

func (l *letter) Settle(v engine.Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdicts = append(l.verdicts, v)
}

// one returns the single verdict of a letter.
func (l *letter) one(t tb) engine.Verdict {
	t.Helper()
	if len(l.verdicts) != 1 {
		t.Fatalf("%s was settled %d times: %v", l.event.MessageID, len(l.verdicts), l.verdicts)
	}
	return l.verdicts[0]
}

func (l *letter) want(t tb, o engine.Outcome) engine.Verdict {
	t.Helper()
	v := l.one(t)
	if v.Outcome != o {
		t.Errorf("%s is %s (%v), want %s", l.event.MessageID, v.Outcome, v.Err, o)
	}
	return v
}

// view makes a product view; the id is its name.
func view(user int32, id string, product int32, at engine.Millis) *letter {
	return &letter{event: profile.Event{
		UserID: user, Type: profile.ProductView, ProductID: product,
		OccurredAt: at, MessageID: id, Digest: profile.DigestOf(id),
	}}
}

// search makes a search event.
func search(user int32, id, phrase string, at engine.Millis) *letter {
	return &letter{event: profile.Event{
		UserID: user, Type: profile.Search, Phrase: phrase, OccurredAt: at, MessageID: id, Digest: profile.DigestOf(id),
	}}
}

func batch(letters ...*letter) profile.Batch {
	b := profile.Batch{UserID: letters[0].event.UserID}
	for _, l := range letters {
		b.Deliveries = append(b.Deliveries, profile.Delivery{Event: l.event, FirstSeen: l.firstSeen, Arrived: l.arrived, Settler: l})
	}
	return b
}

func (f *fixture) apply(batches ...profile.Batch) { f.Apply(context.Background(), batches) }

func (f *fixture) profile(t tb, user int32) *profile.Profile {
	t.Helper()
	p, err := f.store.Load(context.Background(), []int32{user})
	must.OK(t, err)
	return p[0]
}

// reference folds events one at a time, each id once.
func reference(c profile.Config, events []profile.Event) profile.State {
	var s profile.State
	seen := map[string]bool{}
	for _, e := range events {
		if seen[e.MessageID] {
			continue
		}
		seen[e.MessageID] = true
		name := fmt.Sprint("product ", e.ProductID)
		if e.Type.HasPhrase() {
			name = "phrase " + e.Phrase
		}
		s = c.FoldOne(s, profile.Step{Vector: vectorOf(name), Weight: oracle.Weight(e.Type), At: e.OccurredAt})
	}
	return s
}
