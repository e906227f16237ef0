package vector

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func newHash(t testing.TB, dimensions int) *Hash {
	t.Helper()
	h, err := NewHash(dimensions)
	must.OK(t, err)
	return h
}

func embedOne(t testing.TB, h *Hash, text string) []float32 {
	t.Helper()
	all, err := h.Embed(t.Context(), []string{text})
	must.OK(t, err)
	return all[0]
}

func cosine(t testing.TB, h *Hash, a, b string) float64 {
	t.Helper()
	x, y := embedOne(t, h, a), embedOne(t, h, b)
	var dot float64
	for i := range x {
		dot += float64(x[i]) * float64(y[i])
	}
	return dot
}

// A change that makes this fail makes stored vectors incomparable with new
// ones: give it a new HashModel, then new figures.
func TestHashIsPinned(t *testing.T) {
	if HashModel != "keyfold-hash-v1" {
		t.Fatal("a new model needs new figures here")
	}
	h := newHash(t, 1536)
	for _, tc := range []struct {
		text   string
		at     int    // a component
		bits   uint32 // its IEEE 754 bits
		digest uint64 // of all components' bits, little-endian
	}{
		{"wireless headphones", 15, 0xbe062b3d, 0x816de5ce256c86ce},
		{"wireless headphones", 125, 0x3e862b3d, 0x816de5ce256c86ce},
		{"Mug Mug 12oz.", 111, 0x3e7b23c4, 0xa769b7dc03d3962a},
		{"наушники 耳机", 248, 0xbdb453c8, 0x1a6f2327f62f30e1},
		{"!?", 389, 0x3f800000, 0x76f9ce85b3f3107e},
	} {
		vector := embedOne(t, h, tc.text)
		var all []byte
		for _, c := range vector {
			all = binary.LittleEndian.AppendUint32(all, math.Float32bits(c))
		}
		component, digest := math.Float32bits(vector[tc.at]), xxhash.Sum64(all)
		if component != tc.bits || digest != tc.digest {
			t.Errorf("%q: component %d is %#x, want %#x; the digest is %#x, want %#x",
				tc.text, tc.at, component, tc.bits, digest, tc.digest)
		}
	}
}

func TestHashSimilarity(t *testing.T) {
	h := newHash(t, 1536)
	for _, tc := range []struct{ text, near, far string }{
		{"wireless headphones", "wireless bluetooth headphones", "garden hose"},
		{"wireless headphones", "headphones wireless", "wireless bluetooth headphones"},
		{"headphones", "headphnes", "telephones"},
		{"headphones", "headphone", "heads"},
		{"samsung smartphone", "apple smartphone", "samsung refrigerator kitchen"},
		{"rain coat", "rain coats", "train coast"},
		{"kopfhörer", "kopfhorer", "gartenschlauch"},
		{"蓝牙耳机", "无线蓝牙耳机", "花园水管"},
		{"mug mug mug cup", "mug cup", "cup cup cup mug"},
	} {
		near, far := cosine(t, h, tc.text, tc.near), cosine(t, h, tc.text, tc.far)
		t.Logf("%-20s %.2f %-30s %.2f %s", tc.text, near, tc.near, far, tc.far)
		if near <= far {
			t.Errorf("%q is %.3f near %q and %.3f near %q", tc.text, near, tc.near, far, tc.far)
		}
	}
	if got := cosine(t, h, "headphones", "headphnes"); got < 0.4 {
		t.Errorf("a misspelling is only %.3f near", got)
	}
	if got := cosine(t, h, "wireless headphones", "garden hose"); math.Abs(got) > 0.15 {
		t.Errorf("strangers are %.3f near", got)
	}
}

func TestHashFoldsCaseAndWhiteSpace(t *testing.T) {
	h := newHash(t, 256)
	if !slices.Equal(embedOne(t, h, "  Wireless\t HEADPHONES\n"), embedOne(t, h, "wireless headphones")) {
		t.Error("letter case or white space made a difference")
	}
	if slices.Equal(embedOne(t, h, "table lamp"), embedOne(t, h, "lamp table")) {
		t.Error("the order of the words made no difference at all")
	}
}

// Whatever the text and however few the components: a unit vector, the same
// every time and in any company.
func TestHashIsNeverZero(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dimensions := rapid.SampledFrom([]int{1, 2, 3, 7, 1536}).Draw(r, "dimensions")
		h := newHash(t, dimensions)
		texts := rapid.SliceOfN(rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[a-c !]{1,12}`),
			rapid.SampledFrom([]string{"\u200b", "¯\\_(ツ)_/¯", "🙂", "\xff\xfe", strings.Repeat("ab ", 2000)}),
		), 1, 4).Draw(r, "texts")
		all, err := h.Embed(t.Context(), texts)
		must.OK(r, err)
		for i, text := range texts {
			unit, err := engine.Unit(all[i], dimensions)
			if err != nil {
				r.Fatalf("%q: %v", text, err)
			}
			var square float64
			for j, c := range unit {
				square += float64(all[i][j]) * float64(all[i][j])
				if math.Abs(c-float64(all[i][j])) > 1e-6 {
					r.Fatalf("%q: not of unit length", text)
				}
			}
			if math.Abs(square-1) > 1e-5 {
				r.Fatalf("%q: length %v", text, math.Sqrt(square))
			}
			if !slices.Equal(all[i], embedOne(t, h, text)) {
				r.Fatalf("%q: its company made a difference", text)
			}
		}
	})
}

// With one component every signed feature can cancel every other; the sum is
// odd, so it is not zero.
func TestHashOfCancellingFeatures(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-d]{1,5}`), 0, 40).Draw(r, "words")
		f := featureSum{sums: make([]int64, 1)}
		f.text(strings.Join(words, " "))
		if f.sums[0]%2 == 0 {
			r.Fatalf("the sum is %d", f.sums[0])
		}
	})
}

func TestNewHashRefusesDimensions(t *testing.T) {
	for _, dimensions := range []int{-1, 0, profile.MaxDimensions + 1} {
		if _, err := NewHash(dimensions); engine.KindOf(err) != engine.Configuration {
			t.Errorf("%d dimensions: %v", dimensions, err)
		}
	}
}

func TestNormal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune{'a', 'é', ' ', '\t', '\u00a0', '\u2003'})).Draw(r, "text")
		if got, want := normal(text), strings.Join(strings.Fields(text), " "); got != want {
			r.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}
