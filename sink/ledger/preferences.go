package ledger

import (
	"fmt"

	"keyfold/engine/notify"
)

// Preferences are what is stored of a user's own settings.
type Preferences struct {
	Own     notify.Preferences
	Version int64 // rises with each change, from 1; 0: none are stored
	Erased  bool  // the user was erased: none are kept
}

// AnyVersion has a change of preferences replace what is stored, whatever it is.
const AnyVersion = -1

// VersionError says that preferences of another version are stored than a change was made
// from. Nothing was written.
type VersionError struct{ Present int64 }

// Error names the version and the cure.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the stored preferences are of version %d: read them, make the change anew, and send it with this version", e.Present)
}

// CheckVersion returns a [*VersionError] where a change was made from another version than
// the stored one.
func CheckVersion(ifVersion, stored int64) error {
	if ifVersion == AnyVersion || ifVersion == stored {
		return nil
	}
	return &VersionError{Present: stored}
}
