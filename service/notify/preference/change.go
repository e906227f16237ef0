package preference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// Reader reads preferences.
type Reader interface {
	Preferences(ctx context.Context, user string) (ledger.Preferences, error)
}

// Store keeps preferences.
type Store interface {
	Reader
	// UpdatePreferences replaces the preferences of a version and returns the next one. The
	// error is a [*ledger.VersionError] where others are stored, and permanent where the user
	// was erased.
	UpdatePreferences(ctx context.Context, user string, ifVersion int64, own notify.Preferences) (int64, error)
}

// Change makes new preferences of a user's own ones, and stores them if they are still those
// that they were made of; otherwise it begins anew. ifVersion names the only version that is
// changed, or [ledger.AnyVersion]. What equals the stored preferences is not written.
func Change(ctx context.Context, s Store, user string, ifVersion int64, change func(notify.Preferences) (notify.Preferences, error)) (ledger.Preferences, error) {
	for {
		stored, err := s.Preferences(ctx, user)
		if err == nil && stored.Erased {
			err = ledger.ErasedError(user)
		}
		if err == nil {
			err = ledger.CheckVersion(ifVersion, stored.Version)
		}
		if err != nil {
			return stored, err
		}
		own, err := change(stored.Own)
		if err != nil || stored.Version > 0 && Same(own, stored.Own) {
			return stored, err
		}
		version, err := s.UpdatePreferences(ctx, user, stored.Version, own)
		// Each turn another change was stored: this ends.
		if _, other := errors.AsType[*ledger.VersionError](err); other && ifVersion == ledger.AnyVersion && ctx.Err() == nil {
			continue
		}
		return ledger.Preferences{Own: own, Version: version}, err
	}
}

// Replacement returns the change to preferences that were read with these members. Attributes
// are the shop's, not the user's: those that are stored stay where none are named.
func Replacement(own notify.Preferences, members map[string]json.RawMessage) func(notify.Preferences) (notify.Preferences, error) {
	return func(stored notify.Preferences) (notify.Preferences, error) {
		own := own
		if _, named := members["attributes"]; !named {
			own.Attributes = stored.Attributes
		}
		return own, nil
	}
}

// Same reports whether preferences are equal.
func Same(a, b notify.Preferences) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
