package profile

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"keyfold/engine"
)

// IDLimits say which ids a profile keeps.
type IDLimits struct {
	// Retention is how long ids are kept where there are few of them
	// (IDEMPOTENCY_WINDOW).
	Retention time.Duration
	// Horizon is the age below which no id is ever dropped: longer than a broker
	// can take to deliver an event again that was folded and not acknowledged.
	// 0: there is no such broker.
	Horizon time.Duration
	// Min newest ids are always kept. Above Keep, an id goes as soon as it has the
	// Horizon's age, whatever the Retention. A record holds about Max at most; see
	// [Applied.Room].
	Min, Keep, Max int
}

// DefaultIDLimits returns the limits of a worker that was told nothing.
func DefaultIDLimits() IDLimits {
	return IDLimits{Retention: 24 * time.Hour, Horizon: 10 * time.Minute, Min: 64, Keep: 4096, Max: 1 << 18}
}

// gap is by how much a pause between two writes of a user ages ids at most. While
// a user is not written, its events may be waiting for a worker: the ids of those
// that were folded have to be there when the waiting is over.
func (l IDLimits) gap() engine.Millis { return engine.Millis((l.Horizon / 10).Milliseconds()) }

// Applied is the record of the events folded into a profile: their ids in one
// group per write, and the floor below which ids have been dropped. It travels in
// the same atomic write as the vector, so that a redelivery finds its id exactly
// where its effect is.
//
// It is a value like the profile it belongs to: never changed, shared freely.
type Applied struct {
	Groups []Group     // oldest first
	IDs    []AppliedID // of all groups, in their order
	// Floor is a time by which all writes were made whose ids were dropped, 0 while
	// none was. It never falls, but from [Undated].
	Floor engine.Millis

	// groupRoom and idRoom are how much room behind the slices is not taken yet;
	// nil for a record that owns none. See grow.
	groupRoom, idRoom *atomic.Int64
}

// Undated is the floor of a write that dropped ids of its own events: no time that was taken
// before the write is late enough, as a look in between did not find them. No copy can be proven
// new until the next write takes its own time, which is after this write, for the floor.
const Undated = engine.Millis(253402300799999) // the last one of the year 9999

// AppliedID is what a profile keeps of an event: the first half of its digest.
// Among 2^18 ids, a new event meets an equal one of another once in 2^46.
type AppliedID [8]byte

// ID returns the event's id as a profile keeps it.
func (d Digest) ID() AppliedID { return AppliedID(d[:8]) }

// Group is the ids of one write.
type Group struct {
	// At is the store's time, taken just before the write.
	At engine.Millis
	// Write is a random number: an unknown write is found by it.
	Write uint64
	// Count is the number of the write's ids.
	Count int32
	// Stream: all of its events were read from streams, whose marks know them without
	// their ids.
	Stream bool
}

// With returns the record after a write at now that folded the events of these
// ids. It drops what the limits no longer keep; see [IDLimits]. The receiver
// stays as it is.
func (a Applied) With(write uint64, ids []AppliedID, now engine.Millis, limits IDLimits) Applied {
	return a.with(Group{At: now, Write: write, Count: int32(len(ids))}, ids, limits)
}

// WithRead is With for events that were all read from streams. Where a record is full, the
// oldest of such ids go, however young: what is read again is known by its mark.
func (a Applied) WithRead(write uint64, ids []AppliedID, now engine.Millis, limits IDLimits) Applied {
	return a.with(Group{At: now, Write: write, Count: int32(len(ids)), Stream: true}, ids, limits)
}

func (a Applied) with(g Group, ids []AppliedID, limits IDLimits) Applied {
	g.At = a.after(g.At)
	next := a
	if a.Floor == Undated {
		next.Floor = g.At
	}
	groups, dropped := a.expired(len(ids), g.At, limits)
	if dropped > 0 {
		next.Floor = max(next.Floor, a.writtenBy(groups, g.At))
	}
	next.Groups, next.groupRoom = grow(a.Groups[groups:], a.groupRoom, 1)
	next.Groups = append(next.Groups, g)
	next.IDs, next.idRoom = grow(a.IDs[dropped:], a.idRoom, len(ids))
	next.IDs = append(next.IDs, ids...)
	return next
}

// writtenBy returns a time by which the first groups were written. The time of a group is
// taken before its write, which may take long: a look in between did not see it. The time
// of the group behind it is later than the write. There is one wherever there is a horizon,
// but for groups of streams.
func (a Applied) writtenBy(groups int, now engine.Millis) engine.Millis {
	switch {
	case groups < len(a.Groups):
		return a.Groups[groups].At
	case a.Groups[groups-1].Stream:
		return now
	default:
		return a.Last()
	}
}

// Room returns how many events a write at now can fold, at most: a record that is
// full of ids younger than the horizon takes no more until they are older. As they
// age with the writes, some room is left for one write in each [IDLimits.gap].
func (a Applied) Room(now engine.Millis, limits IDLimits) int {
	now = a.after(now)
	_, dropped := a.expired(limits.Max, now, limits)
	room := max(0, limits.Max-(len(a.IDs)-dropped))
	if now-a.Last() >= limits.gap() {
		return max(room, limits.Min)
	}
	return room
}

// after returns now, or the time of the last write where a clock was set back: an
// older group must not stand behind a younger one.
func (a Applied) after(now engine.Millis) engine.Millis { return max(now, a.Last()) }

// Last returns the time of the last write, 0 where no group is left.
func (a Applied) Last() engine.Millis {
	if n := len(a.Groups); n > 0 {
		return a.Groups[n-1].At
	}
	return 0
}

// Newest returns the ids of the last write, none where they were dropped.
func (a Applied) Newest() []AppliedID {
	if len(a.Groups) == 0 {
		return nil
	}
	return a.IDs[len(a.IDs)-int(a.Groups[len(a.Groups)-1].Count):]
}

// All yields the ids with their groups, oldest first.
func (a Applied) All() iter.Seq2[AppliedID, Group] {
	return func(yield func(AppliedID, Group) bool) {
		ids := a.IDs
		for _, g := range a.Groups {
			for _, id := range ids[:g.Count] {
				if !yield(id, g) {
					return
				}
			}
			ids = ids[g.Count:]
		}
	}
}

// HasWrite reports whether the group of a write is in the record.
func (a Applied) HasWrite(write uint64) bool {
	for _, g := range slices.Backward(a.Groups) {
		if g.Write == write {
			return true
		}
	}
	return false
}

// expired returns how many of the oldest groups, with how many ids, go when a
// write adds ids at now.
func (a Applied) expired(added int, now engine.Millis, limits IDLimits) (groups, dropped int) {
	old, total := a.beyondHorizon(now, limits), len(a.IDs)+added
	kept := now - engine.Millis(limits.Retention.Milliseconds())
	for groups < len(a.Groups) {
		g := a.Groups[groups]
		left := total - dropped - int(g.Count)
		full := g.Stream && total-dropped > limits.Max
		if !full && (groups >= old || left < limits.Min || g.At >= kept && total-dropped <= limits.Keep) {
			break
		}
		dropped += int(g.Count)
		groups++
	}
	return groups, dropped
}

// beyondHorizon returns how many of the oldest groups have at least the horizon's
// age. A group's age is the sum of the pauses between the writes since, none
// counted for more than [IDLimits.gap].
func (a Applied) beyondHorizon(now engine.Millis, limits IDLimits) int {
	horizon, gap, age := engine.Millis(limits.Horizon.Milliseconds()), limits.gap(), engine.Millis(0)
	for i, g := range slices.Backward(a.Groups) {
		if age += min(now-g.At, gap); age >= horizon {
			return i + 1
		}
		now = g.At
	}
	return 0
}

// grow returns s with space for n more behind it that is its own. A busy user's
// record has thousands of ids: copying them at every write costs more than the
// fold. So a record grows into the array of the one before where it is the first
// to do so; a second successor (a write that was folded again) finds the space
// taken and copies. The older record never looks beyond its own length.
func grow[T any](s []T, room *atomic.Int64, n int) ([]T, *atomic.Int64) {
	const spare = 16
	free := int64(cap(s) - len(s))
	if room != nil && free >= int64(n) && room.CompareAndSwap(free, free-int64(n)) {
		return s, room
	}
	size := len(s) + n
	size += max(size/4, spare)
	room = new(atomic.Int64)
	room.Store(int64(size - len(s) - n))
	return append(make([]T, 0, size), s...), room
}

// PastHorizon reports whether an event that is absent from the record cannot be
// proven new: it was last known not to be folded before an id was dropped. An
// event without such a time, 0, is new: see [Delivery.FirstSeen].
func (a Applied) PastHorizon(firstSeen engine.Millis) bool {
	return firstSeen != 0 && a.Floor != 0 && firstSeen <= a.Floor
}

// The stored form: a byte that names it, and per group 6 bytes of milliseconds, 8
// of the write, 4 of the count, and the ids; numbers are little-endian. Its length
// is odd. The form before had an even one: per id 16 bytes of digest and 6 of
// milliseconds.
const (
	storedGroups   = 1
	groupBytes     = 6 + 8 + 4
	appliedIDBytes = len(AppliedID{})
	oldIDBytes     = 16 + 6
	// streamGroup is the bit of a stored count that stands for Group.Stream.
	streamGroup = 1 << 31
)

// Size returns the length of the stored form in bytes.
func (a Applied) Size() int {
	if len(a.Groups) == 0 {
		return 0
	}
	return 1 + len(a.Groups)*groupBytes + len(a.IDs)*appliedIDBytes
}

// AppendStored appends the stored form to b.
func (a Applied) AppendStored(b []byte) []byte {
	if len(a.Groups) == 0 {
		return b
	}
	b = append(b, storedGroups)
	ids := a.IDs
	for _, g := range a.Groups {
		b = appendMillis(b, g.At)
		b = binary.LittleEndian.AppendUint64(b, g.Write)
		count := uint32(g.Count)
		if g.Stream {
			count |= streamGroup
		}
		b = binary.LittleEndian.AppendUint32(b, count)
		for i := range ids[:g.Count] {
			b = append(b, ids[i][:]...)
		}
		ids = ids[g.Count:]
	}
	return b
}

var errStoredApplied = errors.New("applied ids: not in a form that keyfold stores")

// ReadApplied reads what AppendStored wrote, and what earlier versions wrote. The
// floor is not part of it.
func ReadApplied(b []byte) (a Applied, err error) {
	if len(b)%2 == 0 {
		return readOldApplied(b)
	}
	if b[0] != storedGroups {
		return a, errStoredApplied
	}
	a.IDs = make([]AppliedID, 0, len(b)/appliedIDBytes)
	for b = b[1:]; len(b) > 0; {
		if len(b) < groupBytes {
			return Applied{}, errStoredApplied
		}
		count := binary.LittleEndian.Uint32(b[14:])
		g := Group{
			At: millisOf(b), Write: binary.LittleEndian.Uint64(b[6:]),
			Count: int32(count &^ streamGroup), Stream: count&streamGroup != 0,
		}
		b = b[groupBytes:]
		if len(b)/appliedIDBytes < int(g.Count) {
			return Applied{}, errStoredApplied
		}
		for range g.Count {
			a.IDs = append(a.IDs, AppliedID(b[:appliedIDBytes]))
			b = b[appliedIDBytes:]
		}
		a.Groups = append(a.Groups, g)
	}
	return a, nil
}

func readOldApplied(b []byte) (a Applied, err error) {
	if len(b)%oldIDBytes != 0 {
		return a, errStoredApplied
	}
	for ; len(b) > 0; b = b[oldIDBytes:] {
		at, n := millisOf(b[16:]), len(a.Groups)
		if n == 0 || a.Groups[n-1].At != at {
			a.Groups, n = append(a.Groups, Group{At: at}), n+1
		}
		a.Groups[n-1].Count++
		a.IDs = append(a.IDs, AppliedID(b[:appliedIDBytes]))
	}
	return a, nil
}

func appendMillis(b []byte, m engine.Millis) []byte {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(m))
	return append(b, at[:6]...)
}

func millisOf(b []byte) engine.Millis {
	var at [8]byte
	copy(at[:6], b)
	return engine.Millis(binary.LittleEndian.Uint64(at[:]))
}
