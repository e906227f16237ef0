package learned

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func cosine(x, y []float32) (dot float64) {
	for i := range x {
		dot += float64(x[i]) * float64(y[i])
	}
	return dot
}

// The cosine of two products is the weighted mean of those of their parts, where both have
// both; a part that is missing leaves the other alone.
func TestJoin(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	vector := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64() * 7)
		}
		return v
	}
	text, otherText, own, other := vector(5), vector(5), vector(3), vector(3)
	alone := func(v []float32) []float32 { return Join(v, nil, len(v), 0, 0) }
	for _, share := range []float64{0, 0.25, 0.5, 1} {
		got := cosine(Join(text, own, 5, 3, share), Join(otherText, other, 5, 3, share))
		want := (1-share)*cosine(alone(text), alone(otherText)) + share*cosine(alone(own), alone(other))
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("share %v: %v, want %v", share, got, want)
		}
		if joined := Join(text, own, 5, 3, share); math.Abs(cosine(joined, joined)-1) > 1e-6 {
			t.Errorf("share %v: the length is %v", share, cosine(joined, joined))
		}
	}
	unit := alone(text)
	if got := Join(text, nil, 5, 3, 0.5); !slices.Equal(got[:5], unit) || !slices.Equal(got[5:], []float32{0, 0, 0}) {
		t.Errorf("without what was learned: %v", got)
	}
	if got := Join(vector(4), own, 5, 3, 0.5); !slices.Equal(got[:5], make([]float32, 5)) || !slices.Equal(got[5:], alone(own)) {
		t.Errorf("without a text: %v", got)
	}
	nan := []float32{float32(math.NaN()), 0, 0, 0, 0}
	if got := Join(nan, make([]float32, 3), 5, 3, 0.5); got != nil {
		t.Errorf("without either: %v", got)
	}
	joined := Join(text, own, 5, 3, 0.5)
	if got := Join(Text(joined, 5, 3), own, 5, 3, 0.5); math.Abs(cosine(got, joined)-1) > 1e-6 {
		t.Errorf("the text of %v is %v", joined, Text(joined, 5, 3))
	}
	if Text(Join(nil, own, 5, 3, 0.5), 5, 3) != nil || Text(joined, 4, 3) != nil {
		t.Error("a text that there is not")
	}
}
