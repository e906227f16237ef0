package profile

import (
	"context"

	"keyfold/engine"
)

// Profiles is the store of user profiles. Implementations pass
// sink/sinktest.
type Profiles interface {
	// Load reads the profiles of users at a point every later write must
	// build on (a primary, with majority read concern where the store knows
	// such a thing). The answer is aligned with users; nil means that there is
	// no such document. An erased user's entry has ErasedAt set. One user's
	// document that cannot be used fails no other's: the error is an
	// [engine.UnreadableError] then, and the other answers stand.
	Load(ctx context.Context, users []int32) ([]*Profile, error)

	// Swap writes each profile if the stored version is the one before it:
	// Version 1 inserts, any other updates on {user_id, Version-1} and never
	// creates. It returns one error per profile: nil once the write is
	// durable, [engine.ErrConflict] where the stored version was another,
	// [engine.ErrUnknown] where the write may have happened, a [engine.Permanent] error
	// where the store will never take this document. The profiles must differ
	// in their users, and stay unchanged for ever after: stores and caches
	// keep them. Where one has marks, its successors have some.
	Swap(ctx context.Context, profiles []*Profile) []error

	// Now returns the store's time, which all workers share: their own clocks may
	// differ. It is exact to some milliseconds and may go back.
	Now(ctx context.Context) (engine.Millis, error)
}

// Eraser replaces a user's profile by a tombstone.
type Eraser interface {
	// Forget writes the tombstone {user_id, version, erased_at}, also for a
	// user that has no profile. Its version is above every version the user
	// ever had, so that a write prepared before it conflicts.
	Forget(ctx context.Context, user int32, at engine.Millis) error
}

// Product is a catalogue entry. Vector is as it came from outside: float32, of
// any length; [engine.Unit] makes it usable.
type Product struct {
	ID       int32
	Name     string
	Category string
	Model    string // what made the vector; "" = the configured model
	Vector   []float32
}

// VectorQuery asks a store's own index of product vectors.
type VectorQuery struct {
	Index    string // name
	Vector   []float64
	Limit    int
	Category string // "": of any
	Without  []int32
}

// ProductTime is when a product was written last, 0 where that is not stored.
type ProductTime struct {
	ID        int32
	WrittenAt engine.Millis
}
