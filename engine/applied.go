package engine

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"
)

// Bounds of the ids a profile keeps, whatever the retention.
const (
	MinApplied = 64
	MaxApplied = 4096
)

// Applied is the record of the events folded into a profile: digests with the
// processing time of their write, oldest first, and the floor below which ids
// have been dropped. It travels in the same atomic write as the vector, which
// is what makes a redelivery harmless.
//
// It is a value like the profile it belongs to: never changed, shared freely.
type Applied struct {
	IDs []AppliedID
	// Floor is the processing time of the newest id that was dropped, 0 while
	// none was.
	Floor Millis

	// free is how much room behind IDs nobody has taken yet; nil for a record
	// that owns none. See room.
	free *atomic.Int64
}

// AppliedID is one folded event.
type AppliedID struct {
	Digest Digest
	At     Millis // processing time of the write
}

// With returns the record after a write at now that folded the events of these
// digests. Ids older than retention are dropped, but never the newest
// [MinApplied]; above [MaxApplied] the oldest go. The receiver stays as it is.
func (a Applied) With(digests []Digest, now Millis, retention time.Duration) Applied {
	// A clock set back must not put a younger id in front of an older one.
	if n := len(a.IDs); n > 0 && a.IDs[n-1].At > now {
		now = a.IDs[n-1].At
	}
	next := a
	if drop := a.expired(len(digests), now, retention); drop > 0 {
		next.Floor = a.IDs[drop-1].At
		next.IDs = a.IDs[drop:]
	}
	next = next.room(len(digests))
	for _, d := range digests {
		next.IDs = append(next.IDs, AppliedID{Digest: d, At: now})
	}
	return next
}

// room returns the record with space for n more ids behind it that is its
// alone. A busy user's record has thousands of ids: copying them at every write
// costs more than the fold. So records grow into the array of the one before
// where they are the first to do so; a second successor (a write that was
// folded again) finds the space taken and copies. The older record never looks
// beyond its own length.
func (a Applied) room(n int) Applied {
	free := int64(cap(a.IDs) - len(a.IDs))
	if a.free != nil && free >= int64(n) && a.free.CompareAndSwap(free, free-int64(n)) {
		return a
	}
	size := len(a.IDs) + n
	size += max(size/4, MinApplied/4)
	a.IDs = append(make([]AppliedID, 0, size), a.IDs...)
	a.free = new(atomic.Int64)
	a.free.Store(int64(size - len(a.IDs) - n))
	return a
}

// expired returns how many of the oldest ids go when added new ones come. The
// new ones are never dropped themselves.
func (a Applied) expired(added int, now Millis, retention time.Duration) int {
	horizon := now - Millis(retention.Milliseconds())
	drop := max(0, min(len(a.IDs), len(a.IDs)+added-MaxApplied))
	for drop < len(a.IDs) && len(a.IDs)-drop+added > MinApplied && a.IDs[drop].At < horizon {
		drop++
	}
	return drop
}

// PastHorizon reports whether an event that is absent from the record cannot be
// proven new: it has been in the system since before an id that was dropped.
// firstSeen 0 (an event that comes for the first time) is always new.
func (a Applied) PastHorizon(firstSeen Millis) bool {
	return firstSeen != 0 && a.Floor != 0 && firstSeen <= a.Floor
}

// appliedBytes is the stored size of one id: the digest and 48 bits of
// milliseconds.
const appliedBytes = 16 + 6

// Size returns the length of the encoded ids in bytes.
func (a Applied) Size() int { return len(a.IDs) * appliedBytes }

// AppendIDs appends the stored form of the ids to b: per id its digest and 48
// bits of little-endian milliseconds, oldest first.
func (a Applied) AppendIDs(b []byte) []byte {
	for i := range a.IDs {
		var at [8]byte
		binary.LittleEndian.PutUint64(at[:], uint64(a.IDs[i].At))
		b = append(b, a.IDs[i].Digest[:]...)
		b = append(b, at[:6]...)
	}
	return b
}

// DecodeIDs reads what AppendIDs wrote.
func DecodeIDs(b []byte) ([]AppliedID, error) {
	if len(b)%appliedBytes != 0 {
		return nil, errors.New("applied ids: length is no multiple of an id's")
	}
	ids := make([]AppliedID, len(b)/appliedBytes)
	for i := range ids {
		entry := b[i*appliedBytes:]
		var at [8]byte
		copy(at[:6], entry[16:appliedBytes])
		ids[i] = AppliedID{Digest: Digest(entry[:16]), At: Millis(binary.LittleEndian.Uint64(at[:]))}
	}
	return ids, nil
}
