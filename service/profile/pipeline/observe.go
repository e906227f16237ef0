package pipeline

import (
	"context"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/service/daemon"
	"keyfold/source/catalog"
)

// ObserveProfiles tells a gate of its own of each kind of calls of a store of
// profiles: reads that succeed must not hide that no write does, nor a clock that
// neither does.
func ObserveProfiles[G daemon.CallObserver](gate func() G, store profile.Profiles) profile.Profiles {
	return observedProfiles{reads: gate(), writes: gate(), clock: gate(), store: store}
}

type observedProfiles struct {
	reads, writes, clock daemon.CallObserver
	store                profile.Profiles
}

func (g observedProfiles) Load(ctx context.Context, users []int32) (profiles []*profile.Profile, err error) {
	err = daemon.Observe(ctx, g.reads, func() error { profiles, err = g.store.Load(ctx, users); return err })
	return profiles, err
}

func (g observedProfiles) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	g.writes.Begin()
	answers := g.store.Swap(ctx, profiles)
	g.writes.End(daemon.StoreFailure(ctx, answers...))
	return answers
}

func (g observedProfiles) Now(ctx context.Context) (now engine.Millis, err error) {
	err = daemon.Observe(ctx, g.clock, func() error { now, err = g.store.Now(ctx); return err })
	return now, err
}

// ObserveProducts tells a gate of every read of a store of products, and took how long it was.
func ObserveProducts(gate daemon.CallObserver, took *metric.Histogram, store catalog.Store) catalog.Store {
	return observedProducts{gate, took, store}
}

type observedProducts struct {
	gate  daemon.CallObserver
	took  *metric.Histogram
	store catalog.Store
}

func (g observedProducts) Products(ctx context.Context, ids []int32) (products []profile.Product, err error) {
	err = daemon.Observe(ctx, g.gate, func() error {
		began := time.Now()
		products, err = g.store.Products(ctx, ids)
		g.took.Observe(time.Since(began))
		return err
	})
	return products, err
}
