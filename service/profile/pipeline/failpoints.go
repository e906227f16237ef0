package pipeline

import (
	"context"
	"errors"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/profile"
)

// failing puts the failpoints around a store of profiles, where there are any.
func failing(store profile.Profiles) profile.Profiles {
	if !failpoint.Enabled {
		return store
	}
	return failingProfiles{store}
}

type failingProfiles struct{ store profile.Profiles }

func (f failingProfiles) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if err := failpoint.Hit(failpoint.BeforeLoad); err != nil {
		return nil, err
	}
	profiles, err := f.store.Load(ctx, users)
	return profiles, errors.Join(err, failpoint.Hit(failpoint.AfterLoad))
}

func (f failingProfiles) Now(ctx context.Context) (engine.Millis, error) { return f.store.Now(ctx) }

func (f failingProfiles) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	if err := failpoint.Hit(failpoint.BeforeSwap); err != nil {
		return everyError(err, len(profiles))
	}
	answers := f.store.Swap(ctx, profiles)
	if err := failpoint.Hit(failpoint.AfterSwap); err != nil {
		return everyError(errors.Join(engine.ErrUnknown, err), len(profiles))
	}
	return answers
}

func everyError(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// failingPhrases fails single phrases.
func failingPhrases(phrases engine.Vectors[string]) engine.Vectors[string] {
	if !failpoint.Enabled {
		return phrases
	}
	return failingVectors{phrases}
}

type failingVectors struct{ vectors engine.Vectors[string] }

func (f failingVectors) Resolve(ctx context.Context, keys []string) []engine.Resolved {
	answers := f.vectors.Resolve(ctx, keys)
	for i := range answers {
		if err := failpoint.Hit(failpoint.Phrase); err != nil {
			answers[i] = engine.Resolved{Err: err}
		}
	}
	return answers
}
