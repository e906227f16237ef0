package similar

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/text/unicode/norm"
)

// Of returns the fingerprint of a notification: of its kind, texts and identity (the
// values of some metadata, in a fixed order, "" for one that is absent), and of its
// dedupe_key, "" for none. Texts need not be valid UTF-8.
func Of(kind, title, message string, identity []string, dedupeKey string) Print {
	parts := append([]string{kind, normal(title), normal(message)}, identity...)
	p := Print{identity: slices.ContainsFunc(identity, func(v string) bool { return v != "" })}
	sum := sha256.Sum256(joined(parts))
	copy(p.content[:], sum[:])
	if dedupeKey != "" {
		p.key = max(1, uint32(xxhash.Sum64String(dedupeKey)))
	}
	var t text
	t.read(title)
	t.read(message)
	p.simhash, p.features = simhash(t.tokens)
	slices.Sort(t.guards)
	guard := joined(append([]string{kind}, identity...))
	for _, h := range t.guards {
		guard = binary.LittleEndian.AppendUint64(guard, h)
	}
	p.guard = xxhash.Sum64(append(guard, t.small...))
	t.mean(&p)
	return p
}

// normal returns the normal form of a text: lower case, NFC, white space collapsed.
func normal(text string) string {
	return strings.Join(strings.Fields(norm.NFC.String(strings.ToLower(text))), " ")
}

// joined returns texts, each preceded by its length.
func joined(parts []string) (b []byte) {
	for _, s := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

// simhash returns Charikar's simhash of the words and the pairs of adjacent words
// (M. Charikar, Similarity Estimation Techniques from Rounding Algorithms, 2002): bit
// i is set if bit i is set in most hashes. It returns the number of hashes too.
func simhash(tokens []token) (hash uint64, features uint8) {
	var ones [64]int
	n := 0
	add := func(h uint64) {
		n++
		for i := range ones {
			ones[i] += int(h >> i & 1)
		}
	}
	for i, t := range tokens {
		if t.sort == breaks {
			continue
		}
		add(t.hash)
		if i+1 < len(tokens) && tokens[i+1].sort != breaks {
			add(pair(t.hash, tokens[i+1].hash))
		}
	}
	for i, set := range ones {
		if 2*set > n {
			hash |= 1 << i
		}
	}
	return hash, uint8(min(n, math.MaxUint8))
}

// pair returns the hash of a sequence that continues with a token.
func pair(h, next uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], h)
	binary.LittleEndian.PutUint64(b[8:], next)
	return xxhash.Sum64(b[:])
}
