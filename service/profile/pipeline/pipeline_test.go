package pipeline_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/proof/oracle"
	"keyfold/service/profile/pipeline"

	"keyfold/proof/queue"
	"keyfold/shard"
	sink "keyfold/sink/memory"
	"keyfold/source/catalog"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

func TestMain(m *testing.M) { process.Main(m) } // looks for leaked goroutines too

// shop is a catalogue in memory, embedded offline.
type shop map[int32]profile.Product

func newShop(t tb, products []profile.Product, dimensions int) shop {
	t.Helper()
	hash, err := vector.NewHash(dimensions)
	must.OK(t, err)
	s := shop{}
	for _, p := range products {
		vectors, err := hash.Embed(context.Background(), []string{catalog.EmbedText(p)})
		must.OK(t, err)
		p.Vector = vectors[0]
		s[p.ID] = p
	}
	return s
}

func (s shop) Products(_ context.Context, ids []int32) ([]profile.Product, error) {
	var found []profile.Product
	for _, id := range ids {
		if p, ok := s[id]; ok {
			found = append(found, p)
		}
	}
	return found, nil
}

// tb is what is needed of a test, rapid's included.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// job is a run from memory to memory.
type job struct {
	windows shard.Config
	laws    processor.Config
	shop    shop
	store   *sink.Profiles
}

func newJob(t tb, products []profile.Product, dimensions int) *job {
	t.Helper()
	j := &job{windows: shard.DefaultConfig(), laws: processor.DefaultConfig()}
	j.windows.Clock = shard.EventClock
	j.laws.Dimensions, j.laws.Model = dimensions, vector.HashModel
	j.shop = newShop(t, products, dimensions)
	j.store = sink.New(dimensions)
	return j
}

func (j *job) start(t tb) *pipeline.Pipeline {
	t.Helper()
	ports, err := pipeline.Ports(j.laws, j.store, j.shop)
	must.OK(t, err)
	p, err := pipeline.New(j.windows, j.laws, ports)
	must.OK(t, err)
	return p
}

// fold takes the events through a pipeline of their own and returns the queue
// with their verdicts.
func (j *job) fold(t tb, events []profile.Event, chunk int) (*queue.Queue, *pipeline.Pipeline) {
	t.Helper()
	p := j.start(t)
	q := queue.NewQueue()
	q.Publish(events...)
	q.Close()
	left := len(events)
	drained := make(chan error, 1)
	err := q.Run(context.Background(), chunk, func(ctx context.Context, ds []profile.Delivery) error {
		err := p.Deliver(ctx, ds)
		if left -= len(ds); left == 0 {
			go func() { drained <- p.Router.Drain(context.Background()) }()
		}
		return err
	})
	must.OK(t, err)
	must.OK(t, <-drained)
	return q, p
}

func (j *job) profiles() map[int32]*profile.Profile {
	all := map[int32]*profile.Profile{}
	for p := range j.store.All() {
		all[p.UserID] = p
	}
	return all
}

func sampleEvents(t tb, c sample.Config) []profile.Event {
	t.Helper()
	bodies := sample.Events(c)
	events := make([]profile.Event, len(bodies))
	for i := range bodies {
		var err error
		if events[i], err = profile.ParseEvent(bodies[i], c.End); err != nil {
			t.Fatalf("%s: %v", bodies[i], err)
		}
	}
	return events
}

func newOracle(t tb, config profile.Config, products []profile.Product, events []profile.Event) *oracle.Oracle {
	t.Helper()
	o, err := oracle.New(config, products)
	must.OK(t, err)
	for i := range events {
		must.OK(t, o.AddEvent(&events[i]))
	}
	return o
}

// The law, through every room: any windows, shards, chunks, order and copies
// give the profiles of one-at-a-time folding; in unit for ordered input.
func TestAnyBatchingEqualsTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const dimensions = 32
		g := sample.DefaultConfig(rapid.IntRange(1, 40).Draw(t, "sessions"))
		g.Users = rapid.IntRange(1, 12).Draw(t, "users")
		g.Seed = rapid.Uint64().Draw(t, "seed")
		g.End = time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)
		g.Repeats = 0.1
		events := sampleEvents(t, g)

		j := newJob(t, sample.Products(), dimensions)
		j.laws.History = rapid.SampledFrom([]profile.History{profile.Mass, profile.UnitMass}).Draw(t, "history")
		if j.laws.History == profile.Mass && rapid.Bool().Draw(t, "shuffled") {
			r := rand.New(rand.NewPCG(g.Seed, 1))
			r.Shuffle(len(events), func(i, k int) { events[i], events[k] = events[k], events[i] })
		} else {
			slices.SortStableFunc(events, func(a, b profile.Event) int {
				if a.Before(&b) {
					return -1
				}
				return 1
			})
		}
		j.windows.Shards = rapid.IntRange(1, 8).Draw(t, "shards")
		j.windows.Batching = rapid.IntRange(0, 3).Draw(t, "batching") > 0
		j.windows.Window = time.Duration(rapid.IntRange(1, 60_000).Draw(t, "window")) * time.Millisecond
		j.windows.MaxDelay = j.windows.Window * time.Duration(rapid.IntRange(1, 4).Draw(t, "delays"))
		j.windows.MaxSize = rapid.IntRange(1, 20).Draw(t, "size")
		j.windows.MaxHeld = rapid.IntRange(16, 2000).Draw(t, "held")
		j.windows.Flushes = rapid.IntRange(1, 4).Draw(t, "flushes")
		j.laws.CacheBytes = rapid.SampledFrom([]int64{0, 3000, 1 << 20}).Draw(t, "cache")

		o := newOracle(t, j.laws.Config, sample.Products(), events)
		q, _ := j.fold(t, events, rapid.IntRange(1, 300).Draw(t, "chunk"))
		if f, d := q.Count(engine.Folded), q.Count(engine.Duplicate); f != int64(o.Folded) || d != int64(o.Repeated) {
			t.Fatalf("%d folded and %d duplicates, want %d and %d", f, d, o.Folded, o.Repeated)
		}
		must.OK(t, o.CheckAll(j.profiles()))
	})
}

// Groups of a replay are the same whatever the shards and the chunks.
func TestReplayGroupsAreReproducible(t *testing.T) {
	g := sample.DefaultConfig(300)
	g.End = time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)
	events := sampleEvents(t, g)
	var want map[int32]int32
	for _, shards := range []int{1, 2, 7} {
		for _, chunk := range []int{1, 100, 256} {
			j := newJob(t, sample.Products(), 8)
			j.windows.Shards = shards
			j.fold(t, events, chunk)
			versions := map[int32]int32{} // one version per batch
			for id, p := range j.profiles() {
				versions[id] = p.Version
			}
			if want == nil {
				want = versions
				continue
			}
			for id := range want {
				if versions[id] != want[id] {
					t.Fatalf("%d shards, chunks of %d: user %d took %d writes, before %d", shards, chunk, id, versions[id], want[id])
				}
			}
		}
	}
}
