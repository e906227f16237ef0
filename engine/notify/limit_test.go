package notify

import (
	"testing"

	"keyfold/internal/testserver/must"
)

// What a state keeps of a key is found under a set whose limits have their keys in another
// order, or fewer of them.
func TestKeysOfLimitsKeepTheirSends(t *testing.T) {
	order, shop := []string{"metadata.order_id"}, []string{"source"}
	policy := func(keys ...[]string) *Policy {
		p := new(Policy)
		for _, key := range keys {
			p.Limits = append(p.Limits, Limit{Of: Selector{Types: []EventType{Update}}, Key: key, Most: 1, Within: 1000})
		}
		p.Prepare()
		return p
	}
	event, err := Parse([]byte(`{"user_id":"u","event_type":"UPDATE","title":"t","source":"shop","channel":["push"],`+
		`"timestamp":"2026-01-01T00:00:00Z","metadata":{"order_id":"17"}}`), 1_767_300_000_000)
	must.OK(t, err)
	before := policy(shop, order)
	sent := before.SentOf(event, event.Channels)
	sent.At = 1
	state := State{Sent: []Sent{sent}, Reserved: []Reservation{{Sent: sent}}}
	for name, p := range map[string]*Policy{"as before": before, "in another order": policy(order, shop), "without the first": policy(order)} {
		of := p.SentOf(event, event.Channels)
		for i := range p.Limits {
			l := &p.Limits[i]
			b := state.boundBy(l, &of, state.Reserved)
			if len(b.sends) != 1 || len(b.slots.reserved) != 1 || !l.covers(p, &of) || !l.covers(p, &sent) {
				t.Errorf("%s, by %v: %d sends, %d reservations", name, l.Key, len(b.sends), len(b.slots.reserved))
			}
		}
	}
	other := *event
	other.Source, other.Metadata = "bank", nil
	p := policy(order, shop)
	of := p.SentOf(&other, other.Channels)
	if b := state.boundBy(&p.Limits[1], &of, nil); len(b.sends) != 0 || p.Limits[0].covers(p, &of) {
		t.Error("another source and no order are bound by the same keys")
	}
}
