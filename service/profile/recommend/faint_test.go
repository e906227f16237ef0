package recommend

import (
	"math"
	"slices"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// returned is a type of events that take others back.
func returned(t *testing.T, w *world) profile.EventType {
	t.Helper()
	types, err := profile.AddEventTypes([]profile.OwnType{{Name: "recommend_return", Weight: -1}})
	must.OK(t, err)
	w.laws.Weights[types[0]] = -1
	return types[0]
}

// A second vector of which only what was taken back is left has no share in an answer, whether
// nothing is left of it or the trace of the decay, which points away.
func TestSecondVectorThatWasTakenBack(t *testing.T) {
	for _, between := range []time.Duration{0, 5 * time.Minute} {
		w := newWorld()
		w.laws.ShortHalfLife = time.Hour
		kind := returned(t, w)
		w.did(t, profile.ProductPurchase, 5, "", 7*24*time.Hour)
		w.did(t, profile.ProductPurchase, 8, "", 10*time.Minute)
		w.did(t, kind, 8, "", 10*time.Minute-between)
		if short := w.profiles[7].Short; short.Vector == nil || short.Mass > w.laws.Weights.Faint() {
			t.Fatalf("the second vector has the mass %v", short.Mass)
		}
		r := w.recommender(t)
		o := DefaultOptions()
		o.Mix = 0
		plain, err := r.ForUser(t.Context(), 7, o)
		must.OK(t, err)
		o.Mix, o.Explain = 0.5, true
		mixed, err := r.ForUser(t.Context(), 7, o)
		if err != nil || mixed.Mix != 0 || !slices.Equal(ids(mixed), ids(plain)) {
			t.Errorf("%v between: %v of the mix %v, %v, want %v", between, ids(mixed), mixed.Mix, err, ids(plain))
		}
		for _, p := range mixed.Products {
			sum := p.Remainder
			for _, part := range p.Because {
				sum += part.Share
			}
			if math.IsNaN(sum) || math.IsInf(sum, 0) {
				t.Errorf("%+v", p)
			}
		}
	}
}
