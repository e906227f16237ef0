package notify

import "github.com/google/uuid"

// Replaces says what a new notification takes the place of; the zero value: nothing.
type Replaces struct {
	Event uuid.UUID // the notification with this id
	ByKey bool      // all of the user that wait with the same dedupe_key
}

// Any reports whether the notification takes the place of others.
func (r Replaces) Any() bool { return r != Replaces{} }
