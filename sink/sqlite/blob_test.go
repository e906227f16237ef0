package sqlite

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestEncoding holds both ways of encoding against the definition, one component
// at a time.
func TestEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SliceOfN(rapid.Uint64(), 0, 40).Draw(t, "bits") // NaNs of every kind too
		var (
			want64, want32 []byte
			v64            = make([]float64, len(bits))
			v32            = make([]float32, len(bits))
		)
		for i, b := range bits {
			v64[i], v32[i] = math.Float64frombits(b), math.Float32frombits(uint32(b))
			want64 = binary.LittleEndian.AppendUint64(want64, b)
			want32 = binary.LittleEndian.AppendUint32(want32, uint32(b))
		}
		checkEncoding(t, v64, want64)
		checkEncoding(t, v32, want32)
	})
}

func checkEncoding[F component](t *rapid.T, v []F, want []byte) {
	for name, got := range map[string][]byte{"encode": encode(v), "portable": encodePortably(v)} {
		if !bytes.Equal(got, want) {
			t.Fatalf("%s: %v is %x, want %x", name, v, got, want)
		}
	}
	for name, decode := range map[string]func([]byte, int) ([]F, error){"decode": decode[F], "portable": decodePortably[F]} {
		got, err := decode(want, len(v))
		if err != nil || len(got) != len(v) || !bytes.Equal(encodePortably(got), want) {
			t.Fatalf("%s: %x is %v, %v, want %v", name, want, got, err, v)
		}
	}
	if _, err := decode[F](append(want, 0), len(v)); err == nil {
		t.Fatal("a vector with a byte too many was decoded")
	}
	if _, err := decode[F](want, len(v)+1); err == nil {
		t.Fatal("a vector with a component too few was decoded")
	}
}

func TestDecodeCopies(t *testing.T) {
	stored := encodePortably([]float64{1, 2, 3})
	v, err := decode[float64](stored, 3)
	clear(stored)
	if err != nil || !slices.Equal(v, []float64{1, 2, 3}) {
		t.Errorf("the vector changed with the buffer it came from: %v, %v", v, err)
	}
}

func BenchmarkEncoding(b *testing.B) {
	v := make([]float64, 1536)
	stored := encodePortably(v)
	for name, f := range map[string]func(){
		"encode/view":     func() { encode(v) },
		"encode/portable": func() { encodePortably(v) },
		"decode/copy":     func() { _, _ = decode[float64](stored, len(v)) },
		"decode/portable": func() { _, _ = decodePortably[float64](stored, len(v)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stored)))
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
