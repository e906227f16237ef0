package preference

import (
	"context"
	"errors"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// following has an alias's preferences be those of the person.
type following struct{ Store }

// Follow returns a store in which each id of a person has the person's preferences.
func Follow(s Store) Store { return following{s} }

func (f following) Preferences(ctx context.Context, user string) (p ledger.Preferences, err error) {
	err = follow(user, func(user string) error {
		p, err = f.Store.Preferences(ctx, user)
		return err
	})
	return p, err
}

func (f following) UpdatePreferences(ctx context.Context, user string, ifVersion int64, own notify.Preferences) (version int64, err error) {
	err = follow(user, func(user string) error {
		version, err = f.Store.UpdatePreferences(ctx, user, ifVersion, own)
		return err
	})
	return version, err
}

// follow does something for the person that an id stands for.
func follow(user string, do func(user string) error) error {
	for {
		err := do(user)
		merged, ok := errors.AsType[*ledger.MergedError](err)
		if !ok {
			return err
		}
		user = merged.Into // which may have been merged since: each turn is another merge, so this ends
	}
}
