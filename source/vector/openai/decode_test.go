package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, tc := range []struct {
		ms, seconds string
		want        time.Duration
	}{
		{"", "", 0},
		{"", "2", 2 * time.Second},
		{"", " 0.5 ", 500 * time.Millisecond},
		{"250", "1", 250 * time.Millisecond},
		{"", "Wed, 04 Mar 2026 05:06:37 GMT", 30 * time.Second},
		{"", "Wed, 04 Mar 2026 05:06:00 GMT", 0},
		{"", "-3", 0},
		{"", "NaN", 0},
		{"", "soon", 0},
		{"", "1e300", 24 * time.Hour},
	} {
		h := http.Header{}
		h.Set("Retry-After-Ms", tc.ms)
		h.Set("Retry-After", tc.seconds)
		if got := retryAfter(h, now); got != tc.want {
			t.Errorf("%q, %q: %v, want %v", tc.ms, tc.seconds, got, tc.want)
		}
	}
}

// answers256 is an answer of a full request, in both encodings.
func answers256(b *testing.B, encoding string) []byte {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var data []map[string]any
	for i := range 256 {
		v := make([]float32, 1536)
		var packed []byte
		for j := range v {
			v[j] = float32(random.NormFloat64() / 39)
			packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(v[j]))
		}
		item := map[string]any{"object": "embedding", "index": i, "embedding": v}
		if encoding == Base64 {
			item["embedding"] = base64.StdEncoding.EncodeToString(packed)
		}
		data = append(data, item)
	}
	body, err := json.Marshal(map[string]any{"object": "list", "model": "m", "data": data})
	must.OK(b, err)
	return body
}

func BenchmarkDecode256(b *testing.B) {
	for _, encoding := range []string{Base64, Float} {
		body := answers256(b, encoding)
		b.Run(encoding, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := decode(body, 256, 1536); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
