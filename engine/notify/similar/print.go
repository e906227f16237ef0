package similar

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// Print is the fingerprint of a notification's texts. Prints are comparable.
type Print struct {
	content  [16]byte  // of the normal form
	simhash  uint64    // of the words
	guard    uint64    // hash of what near texts have in common
	words    [2]uint64 // bitmap of hashes of the words with a meaning
	core     uint32    // hash of the words with a meaning; 0: too few
	title    uint32    // hash of the title's words with a meaning
	key      uint32    // hash of the dedupe_key; 0: none
	states   uint32    // bitmap of the groups of words of which near texts name the same
	features uint8     // number of the simhash's, 255 for more
	identity bool      // the guard has identity values
}

// Size is the length of a Print's binary form in bytes.
const Size = 16 + 4*8 + 4*4 + 1 + 1

// ExactSize is the length of the binary form of what [Print.Exact] returns.
const ExactSize = 16 + 4

var errCutOff = errors.New("the fingerprint of a text is cut off")

// Limits of the measures.
const (
	simhashDistance    = 3  // bits of 64
	simhashKeyDistance = 12 // with equal dedupe_keys
	simhashFeatures    = 8  // without equal dedupe_keys
)

// Same reports whether both have the same content.
func (p Print) Same(q Print) bool { return p.content == q.content }

// SameKey reports whether both have a dedupe_key, and the same one.
func (p Print) SameKey(q Print) bool { return p.key != 0 && p.key == q.key }

// Near reports whether the texts say nearly the same, and which measure says so:
// "simhash" or "words". It is symmetric.
func (p Print) Near(q Print) (measure string, near bool) {
	if p.guard != q.guard || p == p.Exact() { // most marks
		return "", false
	}
	return compare(&p, &q)
}

// compare is Near of texts with one guard.
func compare(p, q *Print) (measure string, ok bool) {
	if differ(p.states, q.states) {
		return "", false
	}
	title := p.title == q.title
	distance := bits.OnesCount64(p.simhash ^ q.simhash)
	switch {
	case title && distance <= simhashDistance && min(p.features, q.features) >= simhashFeatures,
		title && distance <= simhashKeyDistance && p.SameKey(*q):
		return "simhash", true
	case p.core != 0 && p.core == q.core,
		title && p.identity && overlap(p.words, q.words):
		return "words", true
	}
	return "", false
}

// differ reports whether each of two texts names a state that the other does not, or
// one of them denies something.
func differ(a, b uint32) bool {
	return a&^b != 0 && b&^a != 0 || (a^b)&negation != 0
}

// Limits of the overlap.
const (
	overlapLeast = 3  // words in the shorter text
	overlapFew   = 4  // from so many on, some may differ
	overlapMost  = 80 // bits of the bitmap: in a fuller one most words meet by chance
	overlapShare = 0.6
)

// overlap reports whether two texts about one thing share most of their words: by the
// overlap coefficient, the intersection over the smaller set. A text is near to a
// shortened form of it.
func overlap(a, b [2]uint64) bool {
	inA, inB := count(a[0], a[1]), count(b[0], b[1])
	least, most := min(inA, inB), max(inA, inB)
	if least < overlapLeast || most > overlapMost || 2*least < most {
		return false
	}
	both := count(a[0]&b[0], a[1]&b[1])
	return both == least || least >= overlapFew && float64(both) >= overlapShare*float64(least)
}

func count(a, b uint64) int { return bits.OnesCount64(a) + bits.OnesCount64(b) }

// Append appends the binary form of [Size] bytes, which [Read] reads.
func (p Print) Append(b []byte) []byte {
	b = append(b, p.content[:]...)
	for _, n := range [...]uint64{p.simhash, p.guard, p.words[0], p.words[1]} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for _, n := range [...]uint32{p.core, p.title, p.key, p.states} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	identity := byte(0)
	if p.identity {
		identity = 1
	}
	return append(b, p.features, identity)
}

// Read reads a fingerprint from the front of b and returns the rest.
func Read(b []byte) (Print, []byte, error) {
	if len(b) < Size {
		return Print{}, nil, errCutOff
	}
	if b[Size-1] > 1 {
		return Print{}, nil, errors.New("this is no fingerprint of a text")
	}
	p := Print{content: [16]byte(b), features: b[Size-2], identity: b[Size-1] == 1}
	for i, n := range [...]*uint64{&p.simhash, &p.guard, &p.words[0], &p.words[1]} {
		*n = binary.LittleEndian.Uint64(b[16+8*i:])
	}
	for i, n := range [...]*uint32{&p.core, &p.title, &p.key, &p.states} {
		*n = binary.LittleEndian.Uint32(b[48+4*i:])
	}
	return p, b[Size:], nil
}

// Exact returns what finds the same content again and says nothing of near texts.
func (p Print) Exact() Print { return Print{content: p.content, key: p.key} }

// AppendExact appends the binary form of [ExactSize] bytes of a print that [Print.Exact]
// returned, which [ReadExact] reads.
func (p Print) AppendExact(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(b, p.content[:]...), p.key)
}

// ReadExact reads such a print from the front of b and returns the rest.
func ReadExact(b []byte) (Print, []byte, error) {
	if len(b) < ExactSize {
		return Print{}, nil, errCutOff
	}
	return Print{content: [16]byte(b), key: binary.LittleEndian.Uint32(b[16:])}, b[ExactSize:], nil
}

// Content returns the hash of the content: 16 bytes of a SHA-256.
func (p Print) Content() [16]byte { return p.content }
