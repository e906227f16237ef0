package notify

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
)

// U1: of five UPDATEs within a minute under a cap of 3 per hour, three are sent. The fourth
// waits until the first leaves the hour, the fifth until the second does, to the millisecond.
//
// Promise(acceptance/u1)
func TestU1CapPerHour(t *testing.T) {
	s := newScene()
	s.set.Policy.Types[Update].Cooldown = 0
	s.set.Policy.Caps = Caps{250, 3, 250}
	for i := range 5 {
		s.event.ID, s.event.Title = idOf(10+i), fmt.Sprintf("Order %d shipped", 1001+i)
		s.event.Timestamp, s.now = testNow+engine.Millis(i)*12345, testNow+engine.Millis(i)*12345
		s.print()
		r := s.decide()
		s.state.Fold(&r)
		switch {
		case i < 3 && r.Outcome != Now:
			t.Errorf("number %d is %s %v", i+1, r.Outcome, r.Reasons)
		case i >= 3 && (r.Outcome != Later || !slices.Equal(r.Reasons, []string{ReasonCap1H}) || r.DeferUntil != testNow+hour+engine.Millis(i-3)*12345):
			t.Errorf("number %d is %s %v until %d", i+1, r.Outcome, r.Reasons, r.DeferUntil-testNow)
		}
		if i == 3 {
			explained := strings.Join(Explain(&Decided{Record: r, Event: s.event}).Lines, "\n")
			for _, want := range []string{"1 h: 3 of 3 sent, a slot frees at 14:00:00.", "(Europe/Berlin)", "waits until 14:00:00 (FATIGUE_CAP_1H)"} {
				if !strings.Contains(explained, want) {
					t.Errorf("%q is not in:\n%s", want, explained)
				}
			}
		}
	}
}

// U2: quiet hours hold, in the nights in which the clock is set, too.
//
// Promise(acceptance/u2)
func TestU2QuietHoursInNightsOfChange(t *testing.T) {
	for _, evening := range []engine.Millis{at("2026-03-28T12:00:00Z"), at("2026-10-24T12:00:00Z"), at("2026-06-01T12:00:00Z")} {
		for now := evening; now < evening+day; now += 61 * second {
			local := now.Time().In(berlin(t))
			wantQuiet := local.Hour() >= 22 || local.Hour() < 7
			for _, eventType := range EventTypes {
				s := newScene()
				s.prefs.Quiet, s.prefs.Zone = night, zoneNamed("Europe/Berlin")
				s.event.Type, s.now, s.event.Timestamp = eventType, now, now
				s.print()
				r := s.decide()
				if held := r.Outcome != Now; held != (wantQuiet && eventType != Security) {
					t.Fatalf("%s at %s: %s %v", eventType, local, r.Outcome, r.Reasons)
				}
				if r.Outcome != Later {
					continue
				}
				end := (r.DeferUntil - spreadOf(1)).Time().In(berlin(t))
				if end.Hour() != 7 || end.Minute() != 0 || end.Second() != 0 || (r.DeferUntil-now) > 11*hour {
					t.Fatalf("%s at %s waits until %s", eventType, local, end)
				}
			}
		}
	}
}

// U3: texts whose numbers differ are not duplicates, and a repeat with two words
// changed is.
//
// Promise(acceptance/u3)
func TestU3Duplicates(t *testing.T) {
	s := newScene()
	s.set.Policy.Types[Update].Cooldown = 0
	for i, title := range []string{"Order 1001 shipped", "Order 1002 shipped"} {
		s.event.ID, s.event.Title = idOf(i+1), title
		s.print()
		r := s.decide()
		s.state.Fold(&r)
		if r.Outcome != Now {
			t.Errorf("%q is %s %v", title, r.Outcome, r.Reasons)
		}
	}
	s = newScene()
	s.event.Type, s.event.Title = Promo, "Big summer sale on all garden furniture"
	s.event.Message = "Come and visit us this weekend only."
	s.print()
	first := s.decide()
	s.state.Fold(&first)
	s.event.ID, s.event.Title, s.event.Message = idOf(2), "Huge summer sale on all garden furniture", "Come and see us this weekend only."
	s.print()
	if r := s.decide(); r.Outcome != Never || r.Reasons[0] != ReasonNearDuplicate || r.DuplicateOf != idOf(1) || r.Facts.Measure == "" {
		t.Errorf("the repeat is %s %v of %s by %q", r.Outcome, r.Reasons, r.DuplicateOf, r.Facts.Measure)
	}
}

// U4: no event is sent at or after its expiry, and none waits until then.
//
// Promise(acceptance/u4)
func TestU4Expiry(t *testing.T) {
	s := newScene()
	s.event.ExpiresAt = testNow + 2*minute
	s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced})
	for s.now = testNow + 2*minute - 3; s.now < testNow+2*minute+3; s.now++ {
		if r := s.decide(); (r.Outcome == Now) != (s.now < s.event.ExpiresAt) {
			t.Errorf("%d ms after its expiry it is %s %v", s.now-s.event.ExpiresAt, r.Outcome, r.Reasons)
		}
	}
}

// A NEVER at a later turn removes the mark: no event is a duplicate of one that was
// never sent.
func TestNeverRemovesTheMark(t *testing.T) {
	s := newScene()
	s.sent(-3, -2, -1)
	first := s.decide()
	s.state.Fold(&first)
	if first.Outcome != Later || len(s.state.Marks) != 1 || s.state.Marks[0].EventID != s.event.ID {
		t.Fatalf("%s, marks %v", first.Outcome, s.state.Marks)
	}
	repeat := *s.event
	repeat.ID = idOf(2)
	if r := Decide(s.set, &s.prefs, s.state, &repeat, Turn{}, Score{}, s.now); r.Reasons[0] != ReasonDuplicate || r.DuplicateOf != s.event.ID {
		t.Errorf("beside the deferral the repeat is %s %v", r.Outcome, r.Reasons)
	}
	s.prefs.Muted = []EventType{Update}
	s.now, s.turn.Number = first.DeferUntil, 1
	second := s.decide()
	s.state.Fold(&second)
	if second.Reasons[0] != ReasonMuted || len(s.state.Marks) != 0 {
		t.Errorf("%s %v, marks %v", second.Outcome, second.Reasons, s.state.Marks)
	}
	s.prefs.Muted = nil
	if r := Decide(s.set, &s.prefs, s.state, &repeat, Turn{}, Score{}, s.now); r.Outcome != Now {
		t.Errorf("after its end the repeat is %s %v", r.Outcome, r.Reasons)
	}
}

func TestRuleDefersOnce(t *testing.T) {
	s := newScene()
	s.set.Rules = always(Action{Rule: idOf(5), Name: "wait", Outcome: Later, Reason: "WAIT", Strategy: FixedDelay15m})
	s.turn.Spent = []uuid.UUID{idOf(4)}
	r := s.decide()
	if r.RuleID != idOf(5) || !slices.Equal(r.Spent, []uuid.UUID{idOf(4), idOf(5)}) || len(s.turn.Spent) != 1 {
		t.Errorf("rule %s, spent %v", r.RuleID, r.Spent)
	}
	s.event.ExpiresAt = s.now + 15*minute
	if r := s.decide(); r.Reasons[0] != ReasonExpiresFirst || len(r.Spent) != 1 {
		t.Errorf("%s %v, spent %v", r.Outcome, r.Reasons, r.Spent)
	}
	s.event.ExpiresAt, s.event.Type, s.turn.Number = 0, Reminder, MaxTurn
	s.prefs.Quiet = quiet.Hours{{From: 13 * 60, To: 14 * 60}}
	if r := s.decide(); r.Outcome != Postponed || len(r.Spent) != 1 {
		t.Errorf("%s %v, spent %v", r.Outcome, r.Reasons, r.Spent)
	}
}

// Promise(acceptance/channels)
func TestChannelsOfARule(t *testing.T) {
	for _, tc := range []struct {
		override, allowed, want []Channel
	}{
		{nil, nil, []Channel{Push, Email}},
		{nil, []Channel{Email}, []Channel{Email}},
		{[]Channel{SMS, Push}, nil, []Channel{SMS, Push}},
		{[]Channel{SMS, Push}, []Channel{Push}, []Channel{Push}},
		{[]Channel{SMS}, []Channel{Email}, nil},
	} {
		s := newScene()
		s.prefs.Channels = tc.allowed
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Channels: tc.override, Bypass: Forced})
		r := s.decide()
		if !slices.Equal(r.Channels, tc.want) || (r.Outcome == Now) != (tc.want != nil) {
			t.Errorf("override %v, allowed %v: %s %v", tc.override, tc.allowed, r.Outcome, r.Channels)
		}
		if tc.want == nil && (!slices.Equal(r.Reasons, []string{ReasonNoChannel}) || r.RuleID == uuid.Nil) {
			t.Errorf("none of the rule's channels is allowed: %v by the rule %v", r.Reasons, r.RuleID)
		}
		s.event.Type = Security
		if r := s.decide(); r.Outcome != Now {
			t.Errorf("SECURITY, override %v, allowed %v: %s %v", tc.override, tc.allowed, r.Outcome, r.Reasons)
		}
	}
}

// A rule "in the app, and nowhere else" sends no push in the night to a user who has the
// app's notifications off.
//
// Promise(acceptance/channels): A rule's channels are the only ones: where the user allows none of
// them, nothing is sent.
func TestARulesChannelsAreAllThereAre(t *testing.T) {
	s := newScene()
	s.now = at("2026-03-10T01:00:00Z")
	s.prefs = Preferences{Quiet: night, Channels: []Channel{Push, Email}}
	s.set.Rules = always(Action{Outcome: Now, Reason: "QUIETLY_IN_APP", Channels: []Channel{InApp}, Bypass: Bypass{Quiet: true}})
	r := s.decide()
	if r.Outcome != Never || !slices.Equal(r.Reasons, []string{ReasonNoChannel}) || len(r.Channels) > 0 {
		t.Errorf("at 02:00: %s %v by %v", r.Outcome, r.Reasons, r.Channels)
	}
	e := Explain(&Decided{Record: r, Event: s.event})
	if e.Stages[stageRules].Result != StageEnds || !strings.Contains(strings.Join(e.NotNow, " "), "names none of these") {
		t.Errorf("explained as %+v", e)
	}
}

func TestScoreParts(t *testing.T) {
	s := newScene()
	s.event.Timestamp = s.now - day
	s.sent(-30 * minute)
	s.prefs.Caps = Caps{0, 4, 0}
	r := s.decide()
	want := Parts{Base: .5, Hint: 1, Recency: .5, Calm: .75}
	if r.Facts.Parts != want || r.Score != (.3*.5+.25*1+.1*.5+.15*.75)/(.3+.25+.1+.15) || r.Facts.TasteUsed {
		t.Errorf("parts %+v, score %v", r.Facts.Parts, r.Score)
	}
	s.score, s.set.Policy.Score.Taste = Score{Cosine: .25, Known: true}, true
	r = s.decide()
	want.Taste = .5
	if r.Facts.Parts != want || !r.Facts.TasteUsed || r.Facts.Taste != s.score {
		t.Errorf("parts %+v of %+v", r.Facts.Parts, r.Facts.Taste)
	}
	s.set.Policy.Score.Taste = false
	if r = s.decide(); r.Facts.TasteUsed || !r.Facts.Taste.Known {
		t.Errorf("taste that takes no part: %+v", r.Facts)
	}
}

func TestInputOfRules(t *testing.T) {
	s := newScene()
	s.now += 40 * minute
	s.event.ExpiresAt = s.now + 5
	s.prefs.Quiet = quiet.Hours{{From: 13 * 60, To: 14 * 60}}
	s.sent(-23*hour, -hour, -4*minute) // the second has just left its hour
	s.state.LastSend[Update], s.turn.Number = s.now-23*hour, 1
	var got Input
	s.set.Rules = rulesFunc(func(in *Input, _ []uuid.UUID) *Action { got = *in; return nil })
	s.decide()
	want := Input{
		Event: s.event, Turn: 1, AgeMs: 40 * minute, ExpiresMs: 5, Hour: 13, Weekday: 2, InQuiet: true, Counts: [3]int{1, 1, 3},
		SinceLast: 4 * minute, SinceSame: 23 * hour, Now: s.now,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	s.now += 25 * hour // past the horizon
	s.event.ExpiresAt = 0
	s.decide()
	if got.SinceLast != -1 || got.SinceSame != -1 || got.Counts != [3]int{} {
		t.Errorf("past the horizon: %+v", got)
	}
}

func TestDigest(t *testing.T) {
	s := newScene()
	slot := s.now
	s.sent(-3, -2, -1) // caps do not hold a digest
	item := func(n int, eventType EventType, title string) Due {
		e := *s.event
		e.ID, e.Type, e.Title, e.Timestamp = idOf(n), eventType, title, testNow-engine.Millis(n)
		e.Print = s.set.Policy.Print(&e)
		return Due{Event: &e, Turn: Turn{Number: 1}, DueAt: slot, DigestKey: "PROMO", Slot: slot}
	}
	items := []Due{item(10, Promo, "a"), item(11, Promo, "b"), item(12, Promo, "a"), item(13, Alert, "c"), item(14, Promo, "d")}
	items[4].Event.ExpiresAt = s.now
	records := DecideDigest(s.set, &s.prefs, s.state, items, make([]Score, len(items)), s.now)
	for i, want := range []struct {
		id      int
		outcome Outcome
		reason  string
	}{{13, Now, ReasonDigested}, {14, Never, ReasonExpired}, {12, Now, ReasonDigested}, {11, Now, ReasonDigested}, {10, Never, ReasonDuplicate}} {
		r := &records[i]
		if r.EventID != idOf(want.id) || r.Outcome != want.outcome || r.Reasons[0] != want.reason {
			t.Errorf("item %d is %s: %s %v", i, r.EventID, r.Outcome, r.Reasons)
		}
		if (r.Outcome == Now) != (r.DigestID == DigestID("u", "PROMO", slot, idOf(13))) {
			t.Errorf("item %d has the digest_id %s", i, r.DigestID)
		}
		s.state.Fold(r)
	}
	if len(s.state.Sends) != 4 || s.state.LastSend[Promo] != s.now || s.state.LastSend[Alert] != s.now || len(s.state.Marks) != 3 {
		t.Errorf("the state is %+v", s.state)
	}
}

// Senders drop an id that they know. So an item whose LATER is written after its digest
// was decided is not sent under that digest's id.
//
// Promise(notify/late-item): An item whose LATER is written after its digest was decided is dispatched
// under an id of its own.
func TestALateItemIsADigestOfItsOwn(t *testing.T) {
	s := newScene()
	item := func(n int) Due {
		e := *s.event
		e.ID, e.Title = idOf(n), fmt.Sprint("Order ", n)
		e.Print = s.set.Policy.Print(&e)
		return Due{Event: &e, Turn: Turn{Number: 1}, DueAt: s.now, DigestKey: "k", Slot: s.now}
	}
	decide := func(items ...Due) (id uuid.UUID) {
		for _, r := range DecideDigest(s.set, &s.prefs, s.state, items, nil, s.now) {
			if r.Outcome != Now || id != uuid.Nil && r.DigestID != id {
				t.Fatalf("%s: %v in digest %v", r.EventID, r.Outcome, r.DigestID)
			}
			id = r.DigestID
		}
		return id
	}
	one := decide(item(10), item(11))
	if again := decide(item(11), item(10)); again != one {
		t.Errorf("in another order the digest is %v, not %v", again, one)
	}
	if late := decide(item(12)); late == one {
		t.Errorf("a late item is of the same digest, %v", one)
	}
}

func TestDigestInQuietHours(t *testing.T) {
	s := newScene()
	s.prefs.Quiet = quiet.Hours{{From: 13 * 60, To: 14 * 60}}
	var items []Due
	for i, eventType := range []EventType{Promo, Security, Update, Promo} {
		e := *s.event
		e.ID, e.Type, e.Title = idOf(10+i), eventType, fmt.Sprint("Order ", i)
		e.Print = s.set.Policy.Print(&e)
		items = append(items, Due{Event: &e, Turn: Turn{Number: 2}, DueAt: s.now, DigestKey: "k", Slot: s.now})
	}
	items[2].Event.ExpiresAt = s.now + hour
	never := idOf(10)
	s.set.Rules = rulesFunc(func(in *Input, _ []uuid.UUID) *Action {
		if in.Event.ID == never {
			return &Action{Rule: idOf(1), Name: "stop", Outcome: Never, Reason: "STOP"}
		}
		return &Action{Rule: idOf(2), Outcome: Later, Reason: "WAIT", Strategy: NextMorning} // is ignored
	})
	records := DecideDigest(s.set, &s.prefs, s.state, items, nil, s.now)
	for i, want := range []string{"NOW DIGESTED", "NEVER STOP", "NEVER EXPIRES_FIRST", "POSTPONED DIGESTED"} {
		r := &records[i]
		if got := r.Outcome.String() + " " + strings.Join(r.Reasons, " "); got != want {
			t.Errorf("item %d is %s, expected %s", i, got, want)
		}
	}
	last := records[3]
	if last.DeferUntil != s.now+hour || last.Slot != s.now+hour || last.DigestKey != "k" || last.RuleID != uuid.Nil || last.DigestID != uuid.Nil {
		t.Errorf("the postponed one is %+v", last)
	}
	if len(s.state.Sends) != 0 {
		t.Error("the caller's state was changed")
	}
}

func TestDigestKeyOfARule(t *testing.T) {
	s := newScene()
	s.event.DedupeKey = "k"
	s.event.Metadata = Metadata{
		{Path: "shop", Value: Value{Kind: Object}},
		{Path: "shop.id", Value: Value{Kind: Number, Text: "7"}},
		{Path: "gift", Value: Value{Kind: Bool, Bool: true}},
	}
	s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: DigestWindow, DigestKey: []string{
		"event_type", "source", "metadata.shop.id", "metadata.gift", "metadata.none", "priority_hint", "channel", "user_id", "dedupe_key",
	}})
	r := s.decide()
	if r.DigestKey != "UPDATE|orders|7|true||CRITICAL|push,email|u|k" || r.Slot != r.DeferUntil {
		t.Errorf("key %q, slot %d, until %d", r.DigestKey, r.Slot, r.DeferUntil)
	}
}

func TestIDs(t *testing.T) {
	id := NewDecisionID(testNow, [10]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255})
	sec, nsec := id.Time().UnixTime()
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 || sec*1000+nsec/1e6 != int64(testNow) {
		t.Errorf("%s is of version %d, time %d.%09d", id, id.Version(), sec, nsec)
	}
	first := idOf(1)
	one := DigestID("u", "k", 5, first)
	if one.Version() != 5 || one != DigestID("u", "k", 5, first) || one == DigestID("u", "k", 6, first) ||
		one == DigestID("u", "k", 5, idOf(2)) || DigestID("u1", "2", 5, first) == DigestID("u", "12", 5, first) {
		t.Errorf("%s", one)
	}
}
