package eval_test

import (
	"fmt"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/testserver/must"
)

// Of a catalogue that is too large to rank for all users, a share of them is asked.
func TestTooManyProductsAskFewerUsers(t *testing.T) {
	t.Parallel()
	for products, all := range map[int]bool{50: true, 150_000: false} {
		var events []profile.Event
		add := func(user, product int) {
			e := profile.Event{UserID: int32(user), ProductID: int32(product), Type: profile.ProductView, OccurredAt: engine.Millis(1_700_000_000_000 + 1000*len(events)), MessageID: fmt.Sprint(len(events))}
			e.Digest = profile.DigestOf(e.MessageID)
			events = append(events, e)
		}
		for p := range products {
			add(1, p+1)
		}
		for i := range 150_000 {
			add(2+i%5000, 1+i%products)
		}
		line, err := eval.New(events, func(int32) bool { return true }, eval.Options{WarmUp: 0.5})
		must.OK(t, err)
		if (line.Share == 1) != all || line.Share <= 0 {
			t.Errorf("%d products: a share of %v", products, line.Share)
		}
		whole, err := eval.New(events, func(int32) bool { return true }, eval.Options{WarmUp: 0.5, Users: 1})
		if err != nil || whole.Share != 1 || (whole.AskedUsers() == line.AskedUsers()) != all || whole.Events != line.Events {
			t.Errorf("%d products: %d users are asked of %d, %v", products, line.AskedUsers(), whole.AskedUsers(), err)
		}
	}
}
