package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"keyfold/engine/cure"
)

// Kind says what an error means for the event that met it. It is decided where
// the error arises, so that callers need not read error texts.
type Kind uint8

const (
	// Transient errors may pass: the event is tried again later. Every error
	// that was not marked otherwise is transient.
	Transient Kind = iota
	// Permanent errors stay with the event: it is dead-lettered.
	Permanent
	// Configuration errors are not caused by an event: the worker stops
	// consuming and says the cure; nothing is dead-lettered.
	Configuration
)

// String returns the kind's name as it stands in logs.
func (k Kind) String() string {
	switch k {
	case Permanent:
		return "permanent"
	case Configuration:
		return "configuration"
	default:
		return "transient"
	}
}

// Errors of the ports that are answers rather than failures.
var (
	// ErrConflict: the stored version is not the one the write was made for.
	ErrConflict = errors.New("version conflict")
	// ErrUnknown: the write may or may not have happened. Only reading the
	// profile's ids back can tell.
	ErrUnknown = errors.New("outcome unknown")
	// ErrMissing: a store read confirmed that there is no such product.
	ErrMissing = errors.New("not found")
	// ErrOwn: the store answered, and the failure is of this one document; others
	// are taken.
	ErrOwn = errors.New("this document's own failure")
	// ErrAway: what an event's work needs is known to be away (its breaker is
	// open). The event gets the verdict Park.
	ErrAway = errors.New("away")
	// ErrBeforeHistory: the event occurred before the stored history begins, so that it
	// cannot be told whether it is a repeated one.
	ErrBeforeHistory = errors.New("the event occurred before the history begins, which was pruned: it cannot be told whether it is a repeated one")
	// ErrUnroutable: no queue is bound for a message's routing key.
	ErrUnroutable = cure.New("no queue takes this message: run %s, or %s for notifications", "rabbit.Setup", "broker.Setup")
	// ErrRefused: the broker did not take a message over, for now: a queue is
	// full, or could not store it.
	ErrRefused = errors.New("the broker refused the message: see its log and the queue's limits")
)

// Reasons of dead letters that no body is to blame for.
const (
	ReasonRetriesExhausted = "retries_exhausted" // it failed in every attempt
	ReasonPastHorizon      = "past_horizon"      // whether it was folded before cannot be known any more
)

// UnreadableError is that of profiles, whose users are numbers.
type UnreadableError = Unreadable[int32]

// Unreadable is the error of a Load that was answered, but for users of whom what is
// stored cannot be used. It holds why by user; the answers for the others stand. Each
// of the errors names its cure.
type Unreadable[User cmp.Ordered] struct{ Users map[User]error }

// Error returns the texts of all users' errors.
func (e *Unreadable[User]) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the users' errors in the order of the users.
func (e *Unreadable[User]) Unwrap() (all []error) {
	for _, user := range slices.Sorted(maps.Keys(e.Users)) {
		all = append(all, e.Users[user])
	}
	return all
}

// Error carries a kind, a stable reason for counting and dead letters, and the
// cause.
type Error struct {
	Kind   Kind
	Reason string // snake_case, stable: e.g. "phrase_too_long"
	Field  string // of the event, e.g. "search_phrase"; "" where no single field is at fault
	Err    error
}

// Error returns the cause's text.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PermanentError marks err as permanent under a stable reason.
func PermanentError(reason string, err error) error {
	return &Error{Kind: Permanent, Reason: reason, Err: err}
}

// ConfigurationError marks err as a configuration fault. Its text must name the
// cure.
func ConfigurationError(reason string, err error) error {
	return &Error{Kind: Configuration, Reason: reason, Err: err}
}

// KindOf returns the kind of the outermost marked error in err's chain.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Transient
}

// ReasonOf returns the stable reason in err's chain, or "error" where there is
// none.
func ReasonOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Reason != "" {
		return e.Reason
	}
	return "error"
}

// FieldOf returns the field of the event that err's chain names, or "".
func FieldOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Field
	}
	return ""
}
