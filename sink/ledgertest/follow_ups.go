package ledgertest

import (
	"math"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// followUp returns the deferral of the first follow-up of an event, due at an instant.
func followUp(t failer, e *notify.Notification, at engine.Millis, digest string) notify.Due {
	t.Helper()
	due, err := e.FollowUp(&notify.FollowUp{
		EventID: notify.FollowID(e.ID, 1), Step: 1, Channels: []notify.Channel{notify.Email}, At: at, Unless: notify.UnlessRead,
		Reason: notify.ReasonEscalated, Digest: digest,
	})
	must(t, err)
	due.Event, err = notify.ParseStored(due.Event.Body) // as it is read
	must(t, err)
	return due
}

// followed commits a NOW with a follow-up a minute later.
func followed(t failer, s Store, user string) (root notify.Decided, due notify.Due) {
	t.Helper()
	root = Decide(Event(user, notify.Update, start), 1, 0, notify.Now, start)
	due = followUp(t, root.Event, start+minute, "")
	c := change(user, 0, root)
	c.FollowUps = []notify.Due{due}
	must(t, commit(s, c))
	return root, due
}

// A follow-up is a deferral without a key. It outlives the mark of its root, ends with its own
// NOW's mark, and is not made again by a change that comes again.
func testFollowUps(t *testing.T, s Store) {
	root, due := followed(t, s, "a")
	must(t, commit(s, notify.Change{User: "a", Version: 1}, root.Event.ID))
	if got := standing(t, s, "a", due.Event.ID); got.Known[0].Outcome != 0 || len(got.Deferred) != 1 {
		t.Fatalf("%+v", got)
	}
	equal(t, "next due", nextDue(t, s), start+minute)
	equal(t, "claimed", claim(t, s, start+minute), []notify.Due{due})
	later := Decide(due.Event, 2, 0, notify.Later, start+minute)
	must(t, commit(s, change("a", 1, later)))
	now := Decide(due.Event, 3, 1, notify.Now, start+2*minute)
	c := change("a", 2, now)
	c.FollowUps = []notify.Due{due, followUp(t, due.Event, start+3*minute, "offers")} // the first one has a key
	c.FollowUps[1].Event.ID = notify.FollowID(root.Event.ID, 2)
	must(t, commit(s, c, now.Event.ID))
	must(t, commit(s, notify.Change{User: "a", Version: 3}, now.Event.ID))
	all := standing(t, s, "a").Deferred
	if len(all) != 1 || all[0].DigestKey != "offers" || all[0].Slot != start+3*minute || all[0].Turn.Number != 0 || all[0].Event.Follows == nil {
		t.Errorf("%+v", all)
	}
	equal(t, "key", standing(t, s, "a", due.Event.ID).Known[0], key(now, true))
	lost := followUp(t, Event("a", notify.Update, start), start+minute, "")
	c = change("a", 1, Decide(Event("a", notify.Update, start), 2, 0, notify.Now, start)) // of an older version
	c.FollowUps = []notify.Due{lost}
	if commit(s, c) == nil {
		t.Fatal("a change of an older version was written")
	}
	if n := len(standing(t, s, "a").Deferred); n != 1 {
		t.Errorf("a refused change left a follow-up: %d wait", n)
	}
}

// A follow-up is ended before its first decision, by a record of turn 0.
func testFollowUpThatIsCancelled(t *testing.T, s Store) {
	_, due := followed(t, s, "a")
	end := Decide(due.Event, 2, 0, notify.Never, start+1)
	end.Record.Reasons, end.Record.Facts.Step = []string{notify.ReasonCancelled}, 1
	must(t, commit(s, change("a", 1, end)))
	if n := nextDue(t, s); n != 0 {
		t.Errorf("it waits until %d", n)
	}
}

// An erasure takes follow-ups of which there is no decision yet.
func testForgetFollowUps(t *testing.T, s Store) {
	_, due := followed(t, s, "a")
	_, other := followed(t, s, "b")
	must(t, s.Forget(ctx, "a", start+1))
	if left := claim(t, s, start+minute); len(left) != 1 || left[0].Event.ID != other.Event.ID || left[0].Event.ID == due.Event.ID {
		t.Errorf("%+v", left)
	}
}

// What users did is kept with the decision, the first time of each, whatever the order, and
// tells of itself where it is asked for.
func testReads(t *testing.T, s Store) {
	d := decide(t, s, "a", 0, notify.Now, start)
	at := func(read notify.Reported, at engine.Millis) notify.Report {
		return notify.Report{Event: d.Event.ID, Status: notify.Delivered, Channel: notify.Email, At: at, Read: read}
	}
	apply := func(all ...notify.Report) {
		t.Helper()
		for _, err := range s.Apply(ctx, all) {
			must(t, err)
		}
	}
	reported := func() notify.Reported {
		t.Helper()
		all, err := s.Load(ctx, []notify.Ask{{User: "a", Reports: []uuid.UUID{d.Event.ID, id(77)}}})
		must(t, err)
		if len(all[0].Reported) != 2 || all[0].Reported[1] != 0 {
			t.Fatalf("%+v", all[0].Reported)
		}
		return all[0].Reported[0]
	}
	equal(t, "reported", reported(), 0)
	apply(at(0, start+5))
	equal(t, "reported", reported(), notify.WasDelivered)
	apply(at(notify.WasClicked, start+9), at(notify.WasOpened, start+8), at(notify.WasOpened, start+7))
	apply(at(notify.WasDismissed, start+10), at(notify.WasClicked, start+11))
	equal(t, "reported", reported(), notify.WasDelivered|notify.WasOpened|notify.WasClicked|notify.WasDismissed)
	stored := records(t, s, ledger.Filter{Event: d.Event.ID})
	equal(t, "delivery", stored[0].Delivery, notify.Delivery{
		Status: notify.Delivered, Channel: notify.Email, At: start + 5, Opened: start + 7, Clicked: start + 9, Dismissed: start + 10,
	})
	responses := standing(t, s, "a").Responses
	if responses == nil || responses.Types[notify.Update].Opened != 1 || responses.Hours[(start+7).Time().UTC().Hour()] != 1 ||
		math.Abs(responses.Types[notify.Update].Delivered-1) > 1e-9 {
		t.Errorf("the user's responses are %+v", responses)
	}
	must(t, s.Forget(ctx, "a", start+20))
	if left := standing(t, s, "a").Responses; left != nil {
		t.Errorf("of an erased user: %+v", left)
	}
}
