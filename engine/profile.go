package engine

// Profile is the stored user document. A profile is immutable once it was
// handed to a store or came from one.
type Profile struct {
	UserID  int32
	Version int32 // 1 for the first write, one more per write

	Vector []float64 // unit length
	Mass   float64   // length of the sum Vector was normalised from
	// Updated is the time of the newest event (last_updated).
	Updated Millis
	// LastType and LastID are of the newest event by (occurred_at,
	// message_id); the id decides between events of one instant that arrive
	// in different batches.
	LastType EventType
	LastID   string
	// EventCount counts folded events only.
	EventCount int64

	History History
	Model   string // what made the vectors; "" = the configured model

	CreatedAt Millis // processing time of the first write
	WrittenAt Millis // processing time of this write (updated_at)

	Applied Applied

	// ErasedAt is set on a tombstone, which has only UserID and Version
	// beside it.
	ErasedAt Millis
}

// Erased reports whether the document is a tombstone.
func (p *Profile) Erased() bool { return p != nil && p.ErasedAt != 0 }

// State returns what a fold starts from.
func (p *Profile) State() State {
	return State{Vector: p.Vector, Mass: p.Mass, Updated: p.Updated}
}
