package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// shopTypes are the event types of a shop of the test, some of which tell against a product.
var shopTypes = []profile.OwnType{
	{Name: "oracle_wish", Weight: 0.6},
	{Name: "oracle_return", Weight: -1},
	{Name: "oracle_dislike", Weight: -0.25},
	{Name: "oracle_question", Phrase: true, Weight: 0.2},
	{Name: "oracle_not_that", Phrase: true, Weight: -3},
}

// Random histories of the four types and of a shop's own, parsed from their bodies, and folded
// in any order and in any batches, are the sum that the law says: each event at its weight and
// its age, computed here without the engine's folding.
func TestOwnTypesEqualTheSum(t *testing.T) {
	const histories = 100_000
	c := profile.DefaultConfig()
	c.Dimensions = 8
	weights := map[string]float64{"search": 0.7, "product_view": 0.3, "product_click": 0.5, "product_purchase": 1}
	types, err := profile.AddEventTypes(shopTypes)
	must.OK(t, err)
	for i, own := range shopTypes {
		weights[own.Name], c.Weights[types[i]] = own.Weight, own.Weight
	}
	random := rand.New(rand.NewPCG(39, 5))
	var compared, cancelled int
	for n := range histories {
		h := drawHistory(t, random, c)
		want, size := h.sum(weights)
		got := h.fold(t, random, c)
		length := floats.Norm(want, 2)
		if length < 1e-6*size {
			cancelled++
			continue
		}
		compared++
		if d := math.Abs(got.Mass - length); !(d <= Tolerance*max(1, length)) {
			t.Fatalf("history %d: the mass differs by %g", n, d)
		}
		floats.Scale(1/length, want)
		if d := floats.Distance(got.Vector, want, math.Inf(1)); !(d <= Tolerance) {
			t.Fatalf("history %d: components differ by %g", n, d)
		}
	}
	if compared < histories*9/10 {
		t.Errorf("of %d histories %d cancelled out", histories, cancelled)
	}
	t.Logf("%d histories, %d of them cancelled out", histories, cancelled)
}

// history is a user's events, with their vectors.
type history struct {
	lambda  float64
	events  []profile.Event
	vectors [][]float64
}

func drawHistory(t *testing.T, random *rand.Rand, c profile.Config) history {
	h := history{lambda: c.Lambda}
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	vectors := make([][]float64, 3)
	for i := range vectors {
		vectors[i] = make([]float64, c.Dimensions)
		for j := range vectors[i] {
			vectors[i][j] = random.NormFloat64()
		}
		floats.Scale(1/floats.Norm(vectors[i], 2), vectors[i])
	}
	all := profile.EventTypes()
	for i := range 1 + random.IntN(30) {
		kind := all[random.IntN(len(all))]
		of := random.IntN(len(vectors))
		target := fmt.Sprintf(`"product_id":%d`, of+1)
		if kind.HasPhrase() {
			target = fmt.Sprintf(`"search_phrase":"phrase %d"`, of+1)
		}
		at := now.Add(-time.Duration(random.Int64N(int64([]time.Duration{time.Second, time.Hour, 200 * 24 * time.Hour}[random.IntN(3)]))))
		e, err := profile.ParseEvent(fmt.Appendf(nil, `{"user_id":1,"event_type":%q,%s,"occurred_at":%q,"message_id":"%d"}`,
			kind, target, at.Format("2006-01-02T15:04:05.000Z"), i), now)
		must.OK(t, err)
		h.events, h.vectors = append(h.events, e), append(h.vectors, vectors[of])
	}
	return h
}

// sum returns the decayed sum at the time of the newest event, and the decayed sum of the
// weights' sizes.
func (h history) sum(weights map[string]float64) (sum []float64, size float64) {
	newest := slices.MaxFunc(h.events, func(a, b profile.Event) int { return int(a.OccurredAt - b.OccurredAt) }).OccurredAt
	sum = make([]float64, len(h.vectors[0]))
	for i, e := range h.events {
		days := float64(newest-e.OccurredAt) / 86_400_000
		w := weights[e.Type.String()] * math.Exp(-h.lambda*days)
		size += math.Abs(w)
		floats.AddScaled(sum, w, h.vectors[i])
	}
	return sum, size
}

func (h history) fold(t *testing.T, random *rand.Rand, c profile.Config) (s profile.State) {
	order := random.Perm(len(h.events))
	for len(order) > 0 {
		n := 1 + random.IntN(len(order))
		var steps []profile.Step
		for _, i := range order[:n] {
			w, err := c.Weights.Of(h.events[i].Type)
			must.OK(t, err)
			steps = append(steps, profile.Step{Vector: h.vectors[i], Weight: w, At: h.events[i].OccurredAt})
		}
		s, order = c.Fold(s, steps), order[n:]
	}
	return s
}
