package pipeline

import (
	"context"
	"errors"

	"keyfold/engine"
	"keyfold/source/catalog"
)

// CallObserver hears how every call of a store ends: nil is any answer of a working
// store. Each Begin has its End.
type CallObserver interface {
	Begin()
	End(err error)
}

// ObserveProfiles tells a gate of its own of each kind of calls of a store of
// profiles: reads that succeed must not hide that no write does, nor a clock that
// neither does.
func ObserveProfiles[G CallObserver](gate func() G, store engine.Profiles) engine.Profiles {
	return observedProfiles{reads: gate(), writes: gate(), clock: gate(), store: store}
}

type observedProfiles struct {
	reads, writes, clock CallObserver
	store                engine.Profiles
}

func (g observedProfiles) Load(ctx context.Context, users []int32) ([]*engine.Profile, error) {
	g.reads.Begin()
	profiles, err := g.store.Load(ctx, users)
	g.reads.End(storeFailure(ctx, err))
	return profiles, err
}

func (g observedProfiles) Swap(ctx context.Context, profiles []*engine.Profile) []error {
	g.writes.Begin()
	answers := g.store.Swap(ctx, profiles)
	g.writes.End(storeFailure(ctx, answers...))
	return answers
}

func (g observedProfiles) Now(ctx context.Context) (engine.Millis, error) {
	g.clock.Begin()
	now, err := g.store.Now(ctx)
	g.clock.End(storeFailure(ctx, err))
	return now, err
}

// ObserveProducts tells a gate of every read of a store of products.
func ObserveProducts(gate CallObserver, store catalog.Store) catalog.Store {
	return observedProducts{gate, store}
}

type observedProducts struct {
	gate  CallObserver
	store catalog.Store
}

func (g observedProducts) Products(ctx context.Context, ids []int32) ([]engine.Product, error) {
	g.gate.Begin()
	products, err := g.store.Products(ctx, ids)
	g.gate.End(storeFailure(ctx, err))
	return products, err
}

// storeFailure returns the first error the store is to blame for: an answer that names
// a fault of a document, a version or a setting comes from a store that works,
// and who stops asks no longer.
func storeFailure(ctx context.Context, errs ...error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // see above
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrOwn) && engine.KindOf(err) == engine.Transient {
			return err
		}
	}
	return nil
}
