package profile

import (
	"fmt"
	"math"
	"slices"

	"keyfold/engine"

	"gonum.org/v1/gonum/floats"
)

// Profile is the stored user document. A profile is immutable once it was
// handed to a store or came from one.
type Profile struct {
	UserID  int32
	Version int32 // 1 for the first write, one more per write

	Vector []float64 // unit length
	Mass   float64   // length of the sum Vector was normalised from
	// Updated is the time of the newest event (last_updated).
	Updated engine.Millis
	// LastType and LastID are of the newest event by (occurred_at,
	// message_id); the id decides between events of one instant that arrive
	// in different batches.
	LastType EventType
	LastID   string
	// EventCount counts folded events only.
	EventCount int64

	History History
	Model   string // what made the vectors; "" = the configured model

	CreatedAt engine.Millis // processing time of the first write
	WrittenAt engine.Millis // processing time of this write (updated_at)

	Applied Applied
	Marks   Marks

	Short Short
	// DropShort: what the stored document has of a second vector goes with this write. It is
	// not stored.
	DropShort bool

	// ErasedAt is set on a tombstone, which has only UserID and Version
	// beside it.
	ErasedAt engine.Millis
}

// Erased reports whether the document is a tombstone.
func (p *Profile) Erased() bool { return p != nil && p.ErasedAt != 0 }

// Has reports whether the profile keeps the id of an event: it was folded. Ids that were
// dropped are not known.
func (p *Profile) Has(event Digest) bool {
	return p != nil && slices.Contains(p.Applied.IDs, event.ID())
}

// State returns what a fold starts from.
func (p *Profile) State() State {
	return State{Vector: p.Vector, Mass: p.Mass, Updated: p.Updated}
}

// Acceptable returns a permanent error for a profile that no store may take:
// of another length (wrong_dimensions), or with NaN or Inf in it (not_finite).
// A store asks before it writes: what got in could never be folded out again.
func (p *Profile) Acceptable(dimensions int) error {
	if err := acceptable("profile", p.Vector, p.Mass, dimensions); err != nil || p.Short.Vector == nil {
		return err
	}
	return acceptable("second", p.Short.Vector, p.Short.Mass, dimensions)
}

func acceptable(name string, vector []float64, mass float64, dimensions int) error {
	if len(vector) != dimensions {
		return engine.PermanentError("wrong_dimensions",
			fmt.Errorf("%s vector has %d components, the store keeps %d", name, len(vector), dimensions))
	}
	// The sum of squares is a kernel's work, and finite only where every
	// component is; where it is not, a huge one may be to blame.
	if square := floats.Dot(vector, vector); math.IsNaN(square) || math.IsInf(square, 0) {
		for i, x := range vector {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return engine.PermanentError("not_finite", fmt.Errorf("%s vector holds %v at component %d", name, x, i))
			}
		}
	}
	if math.IsNaN(mass) || math.IsInf(mass, 0) {
		return engine.PermanentError("not_finite", fmt.Errorf("%s mass is %v", name, mass))
	}
	return nil
}
