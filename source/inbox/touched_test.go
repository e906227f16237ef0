package inbox

import (
	"slices"
	"testing"

	"keyfold/engine/profile"
)

// The products of a user are those of the user's own events, each once, and of one type where
// one is named.
func TestProductsOf(t *testing.T) {
	b := newBench(t)
	bought := malformed(`{"user_id":1,"event_type":"product_purchase","product_id":7,"occurred_at":"2026-02-10T14:00:00+00:00"}`)
	again := malformed(`{"user_id":1,"event_type":"product_view","product_id":2,"occurred_at":"2026-02-11T14:00:00+00:00"}`)
	searched := malformed(`{"user_id":1,"event_type":"search","search_phrase":"shoes","occurred_at":"2026-02-11T15:00:00+00:00"}`)
	if _, err := profile.AddEventTypes([]profile.OwnType{{Name: "product1purchase", Weight: 1}}); err != nil { // an underscore is no wildcard
		t.Fatal(err)
	}
	alike := malformed(`{"user_id":1,"event_type":"product1purchase","product_id":3,"occurred_at":"2026-02-12T14:00:00+00:00"}`)
	b.add(t, append(events(1, 0, 3), event(2, 50), bought, again, searched, alike)...)
	for _, test := range []struct {
		user int32
		kind profile.EventType
		want []int32
	}{
		{1, 0, []int32{1, 2, 3, 7}}, {1, profile.ProductPurchase, []int32{7}}, {2, 0, []int32{51}}, {2, profile.ProductPurchase, nil}, {3, 0, nil},
	} {
		got, err := ProductsOf(t.Context(), b.read, test.user, test.kind)
		if slices.Sort(got); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("user %d, %v: %v, %v, want %v", test.user, test.kind, got, err, test.want)
		}
	}
}

// The users of the newest events come in the order in which these arrived, each once, whenever the
// events occurred.
func TestRecent(t *testing.T) {
	b := newBench(t)
	b.add(t, event(1, 500))
	b.add(t, event(2, 100))
	b.add(t, event(3, 900))
	b.add(t, event(1, 50))
	for n, want := range map[int][]int32{5: {1, 3, 2}, 2: {1, 3}} {
		all, err := Recent(t.Context(), b.read, n)
		var got []int32
		for _, a := range all {
			got = append(got, a.UserID)
			if a.ReceivedAt == 0 {
				t.Errorf("user %d arrived at no time", a.UserID)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("of %d: %v, %v, want %v", n, got, err, want)
		}
	}
}
