package daemon

import (
	"context"
	"errors"

	"keyfold/engine"
)

// CallObserver hears how every call of a store ends: nil is any answer of a working
// store. Each Begin has its End.
type CallObserver interface {
	Begin()
	End(err error)
}

// Observe tells an observer of a call that returns one error.
func Observe(ctx context.Context, observer CallObserver, call func() error) error {
	observer.Begin()
	err := call()
	observer.End(StoreFailure(ctx, err))
	return err
}

// StoreFailure returns the first error the store is to blame for: an answer that names
// a fault of a document, a version or a setting comes from a store that works,
// and who stops asks no longer.
func StoreFailure(ctx context.Context, errs ...error) error {
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
