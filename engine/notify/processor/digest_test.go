package processor_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
)

// Deferrals of one digest go out as one message, and count once.
func TestADigestIsOneMessage(t *testing.T) {
	f := newFixture(t, false)
	f.now = noon - 10*3_600_000 // night in no one's quiet hours
	var all []processor.Delivery
	for _, title := range []string{"Shoes", "Hats", "Lamps"} {
		e := post(t, "1", "PROMO", "New in "+title)
		e.Hint = notify.Low
		all = append(all, processor.Delivery{Due: []notify.Due{{
			Event: e, Turn: notify.Turn{Number: 1}, DueAt: noon, DigestKey: "PROMO", Slot: noon,
		}}})
	}
	group := all[0].Due
	group = append(group, all[1].Due[0], all[2].Due[0])
	f.now = noon
	v := f.decide(t.Context(), processor.Delivery{Due: group})[0]
	if v.Outcome != processor.Decided || len(v.Records) != 3 {
		t.Fatalf("verdict %+v", v)
	}
	if len(f.out.got) != 1 || len(f.out.got[0].Events) != 3 || f.out.got[0].ID != v.Records[0].DigestID {
		t.Fatalf("handed over %+v", f.out.got)
	}
	if said := v.Records[0].Facts.Digest; said.Key != group[0].DigestKey || said.Show != 3 || v.Records[1].Facts.Digest.Show > 0 {
		t.Errorf("the message says %+v", said)
	}
	s, err := f.ledger.Load(t.Context(), []notify.Ask{{User: "1"}})
	if err != nil || len(s[0].State.Sends) != 1 {
		t.Errorf("the state counts %+v, %v", s[0].State, err)
	}
}

// A digest of several messages is decided once: what a crash or the receiver kept from the
// senders goes out with the content and the id of its record, also where another item of the
// digest has come meanwhile.
//
// Promise(notify-worker/large-digests)
func TestADigestOfSeveralMessagesIsCutOnce(t *testing.T) {
	f := newFixture(t, false)
	f.use(t, func(p *notify.Policy) { p.Digests = nil }) // that shows all
	var group []notify.Due
	for i := range 2*notify.MaxDigestItems + 50 {
		e := post(t, "1", "PROMO", fmt.Sprintf("New in shop %d", i))
		group = append(group, notify.Due{Event: e, Turn: notify.Turn{Number: 1}, DueAt: noon, DigestKey: "PROMO", Slot: noon})
	}
	late := group[0]
	group = group[1:]
	tried := map[uuid.UUID][]*notify.Notification{}
	refused := uuid.Nil
	f.out.failing = func(d *notify.Dispatch) error {
		if before := tried[d.ID]; before != nil && !slices.EqualFunc(before, d.Events, sameEvent) {
			t.Errorf("message %v comes with %d events, and had %d", d.ID, len(d.Events), len(before))
		}
		tried[d.ID] = d.Events
		if len(tried) > 1 && (refused == uuid.Nil || refused == d.ID) {
			refused = d.ID
			return errFlaky
		}
		return nil
	}
	if v := f.decide(t.Context(), processor.Delivery{Due: group})[0]; v.Outcome != processor.Retry || len(v.Records) != len(group) {
		t.Fatalf("%v with %d records, want them stored and a hand-over that failed", v.Outcome, len(v.Records))
	}
	if len(tried) != 3 || len(f.out.got) != 2 {
		t.Fatalf("%d messages, %d handed over, want 3 and 2", len(tried), len(f.out.got))
	}
	must.OK(t, f.Mark(t.Context()))
	// Another process claims what is left, and a late item.
	p := f.again(t, processor.DefaultConfig())
	f.Processor = p
	f.decide(t.Context(), processor.Delivery{Due: append(slices.Clone(group), late)})
	if len(tried) != 4 || len(f.out.got) != 3 {
		t.Fatalf("%d messages, %d handed over, want the late item in a fourth one", len(tried), len(f.out.got))
	}
	if v := f.decide(t.Context(), processor.Delivery{Due: group})[0]; v.Outcome != processor.Retry || v.Key.Dispatched {
		t.Errorf("%+v while the receiver refuses one message", v)
	}
	f.out.failing = nil
	if v := f.decide(t.Context(), processor.Delivery{Due: group})[0]; v.Outcome != processor.Known || !v.Key.Dispatched {
		t.Errorf("%v %v of a claim that finds one message left", v.Outcome, v.Err)
	}
	if len(f.out.got) != 4 || f.out.got[3].ID != refused || !slices.EqualFunc(f.out.got[3].Events, tried[refused], sameEvent) {
		t.Errorf("%d messages are handed over, the last one is %v, want %v", len(f.out.got), f.out.got[len(f.out.got)-1].ID, refused)
	}
	for id, n := range f.out.sent() {
		if n != 1 {
			t.Errorf("event %v was handed over %d times", id, n)
		}
	}
	if n := len(f.out.sent()); n != len(group)+1 {
		t.Errorf("%d events were handed over, want %d", n, len(group)+1)
	}
}

func sameEvent(a, b *notify.Notification) bool { return a.ID == b.ID }
