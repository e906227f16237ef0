package profile

import (
	"context"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// AcceptCommand takes a stream that was made anew as a new one.
const AcceptCommand cure.Name = "streams.Accept"

// Position is where the reading of a stream begins: every event below Offset is settled.
type Position struct {
	Offset uint64
	// Chunk is the one that holds the offset, or the last one before it. The zero value is
	// of a position that nothing was read for.
	Chunk Fingerprint
	// Rewinds is how often the position was set back. A reader of an earlier number reads
	// anew.
	Rewinds int64
	Epoch   Epoch
}

// Epoch is a part of a stream whose events have marks of their own in profiles. Where a stream
// was made anew under its name, or lost its end, other events stand at offsets that marks say
// are done: an operator accepts the stream, and its next epoch begins. The zero value is the
// first one.
type Epoch struct {
	Number uint16
	From   uint64 // its first offset; what lies below is of an earlier epoch and is not read
}

// Fingerprint tells a chunk of a stream from others that stand, or stood, at its offset: of a
// stream that was made anew under the same name, or that lost its end and went on.
type Fingerprint struct {
	First     uint64        // the chunk's first offset
	Timestamp engine.Millis // when the broker stored it
	CRC       uint32        // of its content
}

// Positions keeps a position per stream, in the store of the profiles: what a position says to
// be settled has to be in that store. An earlier position costs a second reading, and so does
// a lost one whose stream is in its first epoch. In a later one the stream is not read: see
// [Profile.Ahead].
type Positions interface {
	// LoadPosition returns the position of a stream, the zero value where there is none.
	LoadPosition(ctx context.Context, stream string) (Position, error)
	// SavePosition stores it where the stored one has as many rewinds, or there is none; else
	// it returns [engine.ErrConflict]. It may be lost with what was written at the same time.
	SavePosition(ctx context.Context, stream string, position Position) error
	// Rewind stores a position that every reader begins again from, with one rewind more than
	// seen, where the stored one has as many as seen, or there is none; else it returns
	// [engine.ErrConflict].
	Rewind(ctx context.Context, stream string, seen, to Position) error
}
