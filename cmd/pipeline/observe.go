package pipeline

import (
	"context"
	"time"

	"keyfold/cmd/consuming"
	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/source/catalog"
)

// ObserveProfiles tells a gate of its own of each kind of calls of a store of
// profiles: reads that succeed must not hide that no write does, nor a clock that
// neither does.
func ObserveProfiles[G consuming.CallObserver](gate func() G, store engine.Profiles) engine.Profiles {
	return observedProfiles{reads: gate(), writes: gate(), clock: gate(), store: store}
}

type observedProfiles struct {
	reads, writes, clock consuming.CallObserver
	store                engine.Profiles
}

func (g observedProfiles) Load(ctx context.Context, users []int32) ([]*engine.Profile, error) {
	g.reads.Begin()
	profiles, err := g.store.Load(ctx, users)
	g.reads.End(consuming.StoreFailure(ctx, err))
	return profiles, err
}

func (g observedProfiles) Swap(ctx context.Context, profiles []*engine.Profile) []error {
	g.writes.Begin()
	answers := g.store.Swap(ctx, profiles)
	g.writes.End(consuming.StoreFailure(ctx, answers...))
	return answers
}

func (g observedProfiles) Now(ctx context.Context) (engine.Millis, error) {
	g.clock.Begin()
	now, err := g.store.Now(ctx)
	g.clock.End(consuming.StoreFailure(ctx, err))
	return now, err
}

// ObserveProducts tells a gate of every read of a store of products, and took how long it was.
func ObserveProducts(gate consuming.CallObserver, took *metric.Histogram, store catalog.Store) catalog.Store {
	return observedProducts{gate, took, store}
}

type observedProducts struct {
	gate  consuming.CallObserver
	took  *metric.Histogram
	store catalog.Store
}

func (g observedProducts) Products(ctx context.Context, ids []int32) ([]engine.Product, error) {
	g.gate.Begin()
	began := time.Now()
	products, err := g.store.Products(ctx, ids)
	g.took.Observe(time.Since(began))
	g.gate.End(consuming.StoreFailure(ctx, err))
	return products, err
}
