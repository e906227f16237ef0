package notify

import (
	"encoding/json"
	"math"
	"testing"

	"keyfold/engine"
)

// Responses count deliveries and first opens, by age.
func TestResponsesAreCountedByAge(t *testing.T) {
	var r Responses
	sent := func(t EventType, at, opened engine.Millis) {
		before, after := Delivery{Status: Pending}, Delivery{Status: Delivered, At: at}
		r.Take(t, &before, &after)
		if opened != 0 {
			before, after.Opened = after, opened
			r.Take(t, &before, &after)
			before, after.Clicked = after, opened+5 // not the first
			r.Take(t, &before, &after)
		}
	}
	sent(Promo, testNow, 0)
	sent(Promo, testNow+ResponseHalfLife, testNow+ResponseHalfLife)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: found %v, want %v", what, got, want)
		}
	}
	near("delivered", r.Types[Promo].Delivered, 1.5)
	near("opened", r.Types[Promo].Opened, 1)
	near("another type's", r.Types[Update].Delivered, 0)
	h := r.Of(Promo, testNow+2*ResponseHalfLife)
	near("delivered later", h.Delivered, .75)
	near("opened later", h.Opened, .5)
	near("rate", h.Rate(.1), (.5+1)/(.75+10))
	near("at the usual rate", (&Habit{Delivered: 20, Opened: 2}).Lift(.1), 0)
	if h.Hour != -1 {
		t.Errorf("one open says that %d is the hour", h.Hour)
	}
	before, failed := Delivery{Status: Pending}, Delivery{Status: DeliveryFailed, At: testNow}
	if r.Take(Promo, &before, &failed); r.Types[Promo].Delivered != 1.5 {
		t.Error("a failure counts as a delivery")
	}
	var again Responses
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || again != r {
		t.Errorf("%v: wrote %+v, read %+v", err, r, again)
	}
	if none := (*Responses)(nil).Of(Promo, testNow); none != (Habit{}) {
		t.Errorf("of no responses: %+v", none)
	}
}

// What a rule's likely hour does not hold keeps its slot: at its time, slots of others do not
// hold it.
func TestARuleWithoutAnHourLeavesTheSlot(t *testing.T) {
	s := newScene()
	s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: LikelyHour, Within: hour})
	s.turn.Number = 1
	slot := func(id int, at engine.Millis) Reservation {
		return Reservation{EventID: idOf(id), Sent: Sent{At: at, Type: Update, Channels: SetOf([]Channel{Push})}, Made: s.now - minute}
	}
	s.state.Reserved = []Reservation{slot(1, s.now), slot(2, s.now+minute)}
	if r := s.decide(); r.Outcome != Now || r.Facts.Waiting != 0 {
		t.Errorf("%s %v, %d slots in its way", r.Outcome, r.Reasons, r.Facts.Waiting)
	}
}

// The likely hour is the middle of the hours around which users open, and needs some opens.
func TestLikelyHour(t *testing.T) {
	r := Responses{At: testNow}
	r.Hours[19], r.Hours[20], r.Hours[21], r.Hours[9] = 2, 2, 2, 3
	if h := r.Of(Promo, testNow); h.Hour != 20 {
		t.Errorf("found %d", h.Hour)
	}
	if h := r.Of(Promo, testNow+ResponseHalfLife); h.Hour != -1 {
		t.Errorf("of few opens: found %d", h.Hour)
	}
	r.Hours = [24]float64{23: 4, 0: 4}
	if h := r.Of(Promo, testNow); h.Hour != 23 && h.Hour != 0 {
		t.Errorf("around midnight: found %d", h.Hour)
	}
}

// Responses raise and lower the score where the set weighs them, and no more than that: what
// holds a notification holds it.
func TestResponsesAndTheScore(t *testing.T) {
	score := func(weight float64, h Habit) Record {
		s := newScene()
		s.set.Policy.Score.Response, s.set.Policy.Types[Update].OpenRate = weight, .2
		s.score.Habit = h
		return s.decide()
	}
	none, usual := score(0, Habit{Delivered: 50, Opened: 50}), score(.3, Habit{})
	often, never := score(.3, Habit{Delivered: 50, Opened: 40}), score(.3, Habit{Delivered: 50})
	if none.Score != usual.Score || often.Score <= usual.Score || never.Score >= often.Score || none.Facts.Response != 0 || often.Facts.Response <= 0 || never.Score >= usual.Score {
		t.Errorf("without weight %v, unknown %v, often %v, never %v", none.Score, usual.Score, often.Score, never.Score)
	}
	s := newScene()
	s.set.Policy.Score.Response, s.score.Habit = 1, Habit{Delivered: 50, Opened: 50}
	s.sent(-3, -2, -1)
	if r := s.decide(); r.Outcome != Later || r.Reasons[0] != ReasonCap5M {
		t.Errorf("past a cap: %s %v", r.Outcome, r.Reasons)
	}
}

// A rule waits for the hour where it is known, comes within the bound and is not this one.
func TestRuleWaitsForTheLikelyHour(t *testing.T) {
	for _, tc := range []struct {
		habit  Habit
		within engine.Millis
		want   engine.Millis // after now; 0: it does not wait
	}{
		{Habit{}, day, 0},
		{Habit{Delivered: 9, Hour: -1}, day, 0},
		{Habit{Delivered: 9, Opened: 9, Hour: 15}, 12 * hour, 3*hour + spreadOf(1)},
		{Habit{Delivered: 9, Opened: 9, Hour: 15}, 2 * hour, 0},
		{Habit{Delivered: 9, Opened: 9, Hour: 12}, 12 * hour, 0}, // it is 12:00 in UTC
		{Habit{Delivered: 9, Opened: 9, Hour: 3}, 24 * hour, 15*hour + spreadOf(1)},
	} {
		s := newScene()
		s.score.Habit = tc.habit
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: LikelyHour, Within: tc.within})
		r := s.decide()
		if tc.want == 0 && (r.Outcome != Now || r.Facts.Strategy != 0) || tc.want > 0 && (r.Outcome != Later || r.DeferUntil != s.now+tc.want || r.Reasons[0] != "WAIT") {
			t.Errorf("%+v within %d: %s %v until %d", tc.habit, tc.within, r.Outcome, r.Reasons, r.DeferUntil-s.now)
		}
	}
}
