package notifyoracle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

func at(text string) engine.Millis {
	t, err := time.Parse("2006-01-02T15:04:05.000Z07:00", text)
	if err != nil {
		panic(err)
	}
	return engine.MillisOf(t)
}

// testSet caps three per hour in Berlin, whatever the type but SECURITY.
func testSet(t *testing.T, rules string) *Set {
	t.Helper()
	read, err := readRules([]byte(`{"rules":[` + rules + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := &Set{Version: "1", Zone: "Europe/Berlin", Morning: 480, Digests: []quiet.Clock{540, 1080}, Rules: read}
	for _, kind := range notify.EventTypes {
		s.Policy.Types[kind] = notify.TypePolicy{Capped: true, Quiet: true, Base: 1, HalfLife: 3_600_000}
	}
	s.Policy.Types[notify.Security] = notify.TypePolicy{NowAtLimit: true, Base: 1, HalfLife: 3_600_000}
	s.Policy.Caps = notify.Caps{3, 3, 100}
	s.Policy.Score = notify.ScorePolicy{Weights: notify.Parts{Base: 1}, Now: .5, Later: .3}
	return s
}

func testEvent(n int, kind notify.EventType, at engine.Millis) Event {
	return Event{Notification: &notify.Notification{
		ID: uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Append(nil, n)), UserID: "u", Type: kind, Title: "t", Source: "s",
		Channels: []notify.Channel{notify.Push, notify.Email}, Timestamp: at, Body: []byte(`{}`),
	}}
}

// TestCapsFreeToTheMillisecond is the story of five UPDATEs within a minute.
func TestCapsFreeToTheMillisecond(t *testing.T) {
	u, set, noon := New().User("u"), testSet(t, ""), at("2026-06-01T12:00:00.000Z")
	for i := range 5 {
		now := noon + engine.Millis(i*1001)
		d := u.Decide(set, testEvent(i, notify.Update, now), Turn{}, now)
		switch {
		case i < 3:
			if d.Outcome != notify.Now || !slices.Equal(d.Reasons, []string{notify.ReasonScoreHigh}) {
				t.Errorf("event %d: %+v", i, d)
			}
		case d.Outcome != notify.Later || d.DeferUntil != noon+3_600_000+engine.Millis(i-3)*1001 ||
			!slices.Equal(d.Reasons, []string{notify.ReasonCap5M, notify.ReasonCap1H}):
			t.Errorf("event %d: %+v", i, d)
		}
	}
}

// TestQuietHoursInTheNightsOfTheChanges checks the ends that a calendar shows.
func TestQuietHoursInTheNightsOfTheChanges(t *testing.T) {
	o := New()
	z := o.zone("Europe/Berlin")
	night := quiet.Hours{{From: 1320, To: 420}}
	gap := quiet.Hours{{From: 120, To: 150}}
	for _, c := range []struct {
		hours     quiet.Hours
		now, ends string
	}{
		{night, "2026-03-28T21:00:00.000Z", "2026-03-29T05:00:00.000Z"}, // 22:00 CET to 07:00 CEST
		{night, "2026-03-28T20:59:59.999Z", "2026-03-28T20:59:59.999Z"}, // 21:59:59 is not quiet
		{night, "2026-10-24T20:00:00.000Z", "2026-10-25T06:00:00.000Z"}, // 22:00 CEST to 07:00 CET
		{gap, "2026-03-29T01:00:00.000Z", "2026-03-29T01:00:00.000Z"},   // 02:00 to 02:30 is not shown
		{gap, "2026-10-25T00:00:00.000Z", "2026-10-25T00:30:00.000Z"},   // and is shown twice
		{gap, "2026-10-25T01:00:00.001Z", "2026-10-25T01:30:00.000Z"},
	} {
		if ends := z.quietEnd(c.hours, at(c.now)); ends != at(c.ends) {
			t.Errorf("%v from %s: ends at %v, want %s", c.hours, c.now, ends.Time(), c.ends)
		}
	}
	if next := z.nextPass(at("2026-03-29T00:30:00.000Z"), 150); next != at("2026-03-29T01:00:00.000Z") {
		t.Errorf("02:30 of the gap is passed at %v", next.Time())
	}
	if next := z.nextPass(at("2026-10-25T00:30:00.000Z"), 150); next != at("2026-10-25T01:30:00.000Z") {
		t.Errorf("02:30 is passed again at %v", next.Time())
	}
	if o.zone("No/Where") != nil || o.zone("") != nil || o.zone("Local") != nil {
		t.Error("a zone that is none was read")
	}
}

// TestACapThatFreesInQuietHoursMovesToTheirEnd: the reasons are those that hold now.
func TestACapThatFreesInQuietHoursMovesToTheirEnd(t *testing.T) {
	u, set, evening := New().User("u"), testSet(t, ""), at("2026-06-01T19:30:00.000Z") // 21:30 in Berlin
	u.Preferences.Quiet = quiet.Hours{{From: 1320, To: 420}}
	var d Decision
	for i := range 4 {
		d = u.Decide(set, testEvent(i, notify.Update, evening), Turn{}, evening)
	}
	end := at("2026-06-02T05:00:00.000Z")
	if d.Outcome != notify.Later || slices.Contains(d.Reasons, notify.ReasonQuietHours) || d.DeferUntil < end || d.DeferUntil > end+600_000 {
		t.Errorf("%+v", d)
	}
}

func TestADigestCountsOnce(t *testing.T) {
	u, set, slot := New().User("u"), testSet(t, ""), at("2026-06-01T16:00:00.000Z")
	items := []Item{{Event: testEvent(1, notify.Promo, slot-10), Turn: 1}, {Event: testEvent(2, notify.Alert, slot), Turn: 1}}
	id := uuid.NewSHA1(uuid.NameSpaceDNS, []byte("digest"))
	all := u.Digest(set, items, func(uuid.UUID) uuid.UUID { return id }, slot)
	if len(all) != 2 || all[0].Type != notify.Alert || all[0].Outcome != notify.Now || all[1].DigestID != id {
		t.Fatalf("%+v", all)
	}
	if s := u.State(); len(s.Sends) != 1 || s.LastDigest != id || len(s.Marks) != 2 {
		t.Errorf("%+v", s)
	}
}

// TestNullsInRules: an absent field is null, and a value of another type equals nothing.
func TestNullsInRules(t *testing.T) {
	one, x := Number{"1", seconds(1000).(Number).Rat}, "x"
	for _, c := range []struct {
		have     any
		operator string
		want     any
		match    bool
	}{
		{nil, "eq", nil, true},
		{nil, "eq", x, false},
		{nil, "neq", x, true},
		{nil, "neq", nil, false},
		{nil, "in", []any{x, nil}, true},
		{nil, "not_in", []any{x}, true},
		{nil, "not_in", []any{x, nil}, false},
		{nil, "gt", one, false},
		{nil, "lte", one, false},
		{nil, "exists", nil, false},
		{nil, "not_exists", nil, true},
		{x, "neq", one, true},
		{x, "eq", one, false},
		{x, "gt", one, false},
		{x, "neq", nil, true},
		{x, "neq", "y", true},
		{one, "eq", Number{"1.0", one.Rat}, true},
		{one, "gte", one, true},
		{true, "eq", true, true},
		{[]notify.Channel{notify.Push, notify.SMS}, "eq", "sms", true},
		{[]notify.Channel{notify.Push, notify.SMS}, "not_in", []any{"sms"}, false},
	} {
		if match := compare(c.have, c.operator, c.want); match != c.match {
			t.Errorf("%v %s %v: %v", c.have, c.operator, c.want, match)
		}
	}
}
