package notify

import "testing"

// A send counts for a limit with a key also where the set that decided it lists its keys in
// another order.
func TestKeysOfAnotherSetCount(t *testing.T) {
	byKey := func(keys ...string) (all []Limit) {
		for _, key := range keys {
			all = append(all, Limit{Name: key, Key: []string{key}, Most: 1, Within: hour})
		}
		return all
	}
	s := newScene()
	s.event.DedupeKey = "k"
	s.set.Policy.Limits = byKey("dedupe_key", "source")
	s.set.Policy.Prepare()
	first := s.decide()
	if first.Outcome != Now {
		t.Fatalf("the first is %s %v", first.Outcome, first.Reasons)
	}
	s.state.Fold(&first)
	s.set.Policy.Limits = byKey("source", "title")
	s.set.Policy.Prepare()
	s.set.Policy.Types[Update].Cooldown = 0
	s.event.ID, s.event.Title = idOf(2), "Order 1002 shipped"
	s.print()
	if r := s.decide(); r.Outcome != Later || r.Reasons[0] != ReasonLimit {
		t.Errorf("the second of the same source is %s %v", r.Outcome, r.Reasons)
	}
}

// A slot that another set has left moves as the limits of this one say, where both have the
// key, in whatever order.
func TestKeysAreInOrder(t *testing.T) {
	p := testPolicy()
	for _, keys := range [][]string{{"source", "dedupe_key"}, {"dedupe_key", "source"}} {
		p.Limits = nil
		for _, key := range keys {
			p.Limits = append(p.Limits, Limit{Name: key, Key: []string{key}, Most: 1, Within: hour})
		}
		p.Prepare()
		for i := range p.Limits {
			if l := &p.Limits[i]; (l.keyAt == 1) != (l.Name == "source") {
				t.Errorf("of %v, %s is key %d", keys, l.Name, l.keyAt)
			}
		}
	}
}

// A slot whose keys another set has put into other places is bound by the limits of this one: it
// moves to no place that they hold.
func TestAKeyIsKnownInAnyPlace(t *testing.T) {
	p := testPolicy()
	p.Limits = []Limit{{Name: "source", Key: []string{"source"}, Most: 1, Within: hour}, {Name: "title", Key: []string{"title"}, Most: 1, Within: hour}}
	p.Prepare()
	s := p.SentOf(newScene().event, nil)
	s.Type = Promo
	swapped := s
	swapped.Keys = [MaxKeys]uint32{s.Keys[1], s.Keys[0]}
	for i := range p.Limits {
		if l := &p.Limits[i]; s.key(l) == 0 || swapped.key(l) != s.key(l) || !l.covers(&p, &swapped) {
			t.Errorf("limit %d has the key %x, in the other place %x", i, s.key(l), swapped.key(l))
		}
	}
	var none Sent
	if l := &p.Limits[0]; none.key(l) != 0 {
		t.Errorf("a send without keys has the key %x", none.key(l))
	}
}
