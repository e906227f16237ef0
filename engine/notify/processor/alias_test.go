package processor_test

import (
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
)

func (f *fixture) merge(t *testing.T, alias, into string) {
	t.Helper()
	if _, err := ledger.MergeUsers(t.Context(), f.ledger, alias, into, f.now); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) verified(t *testing.T, user string) {
	t.Helper()
	v, err := ledger.Verify(t.Context(), f.ledger, user, 0)
	if err != nil || len(v.Differences) > 0 {
		t.Errorf("user %s: %q, %v", user, v.Differences, err)
	}
}

// What comes for either id counts as one person's, also of two ids in one flush: of one
// send in 5 minutes the second waits, whichever id it names.
//
// Promise(notify/aliases): Two ids that are merged are one user: caps, duplicates, preferences and what waits are those of one person, and erasing one erases both.
func TestEventsOfAnAlias(t *testing.T) {
	f := tight(t)
	if r := f.decideEvents(t, post(t, "a", "MESSAGE", "one"))[0]; r.Outcome != notify.Now {
		t.Fatalf("%s %v", r.Outcome, r.Reasons)
	}
	f.merge(t, "a", "b")
	for _, user := range []string{"a", "b"} {
		r := f.decideEvents(t, post(t, user, "MESSAGE", "two of "+user))[0]
		if r.Outcome != notify.Later || r.UserID != "b" || r.Reasons[0] != notify.ReasonCap5M {
			t.Errorf("%s: %s %v of %s", user, r.Outcome, r.Reasons, r.UserID)
		}
	}
	f.now += 3_600_000
	records := f.decideEvents(t, post(t, "a", "MESSAGE", "three"), post(t, "b", "MESSAGE", "four"), post(t, "c", "MESSAGE", "five"))
	outcomes := map[string][]notify.Outcome{}
	for _, r := range records {
		outcomes[r.UserID] = append(outcomes[r.UserID], r.Outcome)
	}
	slices.Sort(outcomes["b"])
	if !slices.Equal(outcomes["b"], []notify.Outcome{notify.Now, notify.Later}) || !slices.Equal(outcomes["c"], []notify.Outcome{notify.Now}) || len(outcomes["a"]) > 0 {
		t.Errorf("%v", outcomes)
	}
	f.verified(t, "b")
}

// What waits of an alias when it is merged is decided as the person's, claimed before or after,
// and a cancellation for the alias ends it.
func TestWaitingOfAnAlias(t *testing.T) {
	f := tight(t)
	f.decideEvents(t, post(t, "a", "MESSAGE", "one"))
	waits, cancelled := post(t, "a", "MESSAGE", "two"), post(t, "a", "MESSAGE", "three")
	f.decideEvents(t, waits, cancelled)
	due, err := f.ledger.Claim(t.Context(), f.now+engine.Millis(3_600_000), f.now+engine.Millis(3_600_000), 1)
	if err != nil || len(due) != 1 {
		t.Fatal(due, err)
	}
	f.merge(t, "a", "b")
	f.now = due[0].DueAt
	v := f.decide(t.Context(), processor.Delivery{Due: due})[0] // as it was claimed before
	if v.Outcome != processor.Decided || len(v.Records) != 1 || v.Records[0].Outcome != notify.Now || v.Records[0].UserID != "b" {
		t.Fatalf("%+v", v)
	}
	other := cancelled.ID
	if other == due[0].Event.ID {
		other = waits.ID
	}
	c := f.Cancel(t.Context(), []notify.Cancellation{{User: "a", Event: other}})[0]
	if len(c.Records) != 1 || c.Records[0].UserID != "b" || c.Records[0].Reasons[0] != notify.ReasonCancelled {
		t.Errorf("%+v", c)
	}
	again := f.Cancel(t.Context(), []notify.Cancellation{{User: "a", Event: other}})[0]
	if len(again.Records) != 0 || again.Key.Outcome != notify.Never {
		t.Errorf("%+v", again)
	}
	f.verified(t, "b")
}

// A flush that has read two users before they are merged writes nothing of before, and decides
// for the person; an event that comes again under the alias is known.
func TestMergeInMidFlush(t *testing.T) {
	f := tight(t)
	first := post(t, "a", "MESSAGE", "one")
	f.decideEvents(t, first)
	merged := false
	f.faults.commits = func(notify.Change) error {
		if !merged {
			merged = true
			f.merge(t, "a", "b")
		}
		return nil
	}
	second := post(t, "a", "MESSAGE", "two")
	verdicts := f.decide(t.Context(),
		processor.Delivery{Event: second}, processor.Delivery{Event: post(t, "b", "MESSAGE", "three")})
	for _, v := range verdicts {
		if v.Outcome != processor.Decided || v.Records[0].Outcome != notify.Later || v.Records[0].UserID != "b" {
			t.Errorf("%+v", v)
		}
	}
	// Known by a stale reading, by a fresh one, and while the ledger answers late.
	for _, d := range []processor.Delivery{{Event: first}, {Event: second}, {Event: first, Redelivered: true}} {
		if v := f.decide(t.Context(), d)[0]; v.Outcome != processor.Known || v.Key.User != "b" {
			t.Errorf("%+v", v)
		}
	}
	if v := f.decide(t.Context(), processor.Delivery{Event: withUser(t, first, "c"), Redelivered: true})[0]; v.Outcome != processor.Dead {
		t.Errorf("an event of another user: %+v", v)
	}
	f.verified(t, "b")
}

// A ledger reads users before keys. A merge that comes between makes no event another user's.
func TestMergeBetweenTwoReadings(t *testing.T) {
	f := tight(t)
	first := post(t, "a", "MESSAGE", "one")
	f.decideEvents(t, first)
	f.faults.between = func() { f.merge(t, "a", "b") }
	if v := f.decide(t.Context(), processor.Delivery{Event: first, Redelivered: true})[0]; v.Outcome != processor.Known || v.Key.User != "b" {
		t.Errorf("%+v", v)
	}
}

// withUser is an event of another user under the same id.
func withUser(t *testing.T, e *notify.Notification, user string) *notify.Notification {
	t.Helper()
	other := parse(t, e.Body)
	other.UserID = user
	return other
}

// An event of an erased alias that comes again is known, and a new one is not sent.
func TestErasedAlias(t *testing.T) {
	f := tight(t)
	first := post(t, "a", "MESSAGE", "one")
	f.decideEvents(t, first)
	f.merge(t, "a", "b")
	must.OK(t, f.ledger.Forget(t.Context(), "b", f.now))
	if v := f.decide(t.Context(), processor.Delivery{Event: first, Redelivered: true})[0]; v.Outcome != processor.Known {
		t.Errorf("%+v", v)
	}
	if r := f.decideEvents(t, post(t, "a", "MESSAGE", "two"))[0]; r.Reasons[0] != notify.ReasonUserErased {
		t.Errorf("%+v", r)
	}
}
