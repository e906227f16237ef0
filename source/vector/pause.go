package vector

import (
	"errors"
	"time"
)

// PauseError carries how long the other side asks to be left alone
// (Retry-After in HTTP), beside what it answered.
type PauseError struct {
	Pause time.Duration // above 0
	Err   error
}

// Error returns the text of what was answered.
func (e *PauseError) Error() string { return e.Err.Error() }

// Unwrap returns what was answered.
func (e *PauseError) Unwrap() error { return e.Err }

// PauseOf returns the pause that err's chain asks for, or 0.
func PauseOf(err error) time.Duration {
	if e, ok := errors.AsType[*PauseError](err); ok {
		return e.Pause
	}
	return 0
}
