package notifyoracle

import (
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

func limited(t *testing.T, l notify.Limit) *scene {
	s := newScene(t, "")
	if l.Within == 0 {
		l.Within = day
	}
	s.set.Policy.Limits = []notify.Limit{l}
	return s
}

var (
	now       = want{outcome: notify.Now, reasons: reasons(notify.ReasonScoreHigh)}
	heldByOne = want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit)}
)

// At most `most` in every window (t - within, t]; what waits keeps a slot.
func TestALimitFreesToTheMillisecond(t *testing.T) {
	s := limited(t, notify.Limit{Name: "two", Most: 2})
	first := s.comes(notify.Promo, s.noon)
	second := s.comes(notify.Update, s.noon+1)
	third := s.comes(notify.Promo, s.noon+2)
	fourth := s.comes(notify.Promo, s.noon+3)
	s.expect(&first, now)
	s.expect(&second, now)
	s.expect(&third, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: s.noon + day})
	s.expect(&fourth, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: s.noon + 1 + day})
	if !third.Reserved || !fourth.Reserved {
		t.Error("what waits for a limit has no slot")
	}
	for at, w := range map[engine.Millis]want{s.noon + day - 1: heldByOne, s.noon + day: now} {
		s := limited(t, notify.Limit{Name: "one", Most: 1})
		s.comes(notify.Promo, s.noon)
		d := s.comes(notify.Promo, at)
		s.expect(&d, w)
	}
}

// What a limit covers, and what it counts.
func TestWhatALimitCoversAndCounts(t *testing.T) {
	promo := notify.Selector{Types: []notify.EventType{notify.Promo}}
	for _, c := range []struct {
		name          string
		limit         notify.Limit
		first, second notify.EventType
		change        func(s *scene, first, second Event)
		want          want
	}{
		{name: "each capped type", first: notify.Promo, second: notify.Update, want: heldByOne},
		{name: "not a type that is not capped", first: notify.Promo, second: notify.Security, want: now},
		{name: "a type that is not capped counts", first: notify.Security, second: notify.Promo, want: heldByOne},
		{
			name: "a type that is not capped and named", limit: notify.Limit{Of: notify.Selector{Types: []notify.EventType{notify.Security}}},
			first: notify.Security, second: notify.Security, want: heldByOne,
		},
		{name: "no other type", limit: notify.Limit{Of: promo}, first: notify.Promo, second: notify.Update, want: now},
		{name: "other types do not count", limit: notify.Limit{Of: promo}, first: notify.Update, second: notify.Promo, want: now},
		{name: "the source", limit: notify.Limit{Of: notify.Selector{Sources: []string{"s"}}}, first: notify.Promo, second: notify.Promo, want: heldByOne},
		{
			name: "no other source", limit: notify.Limit{Of: notify.Selector{Sources: []string{"s"}}}, first: notify.Promo, second: notify.Promo,
			change: func(_ *scene, first, _ Event) { first.Source = "other" }, want: now,
		},
		{name: "another key", limit: notify.Limit{Key: []string{"metadata.order_id"}}, first: notify.Promo, second: notify.Promo, want: now},
		{
			name: "the same key", limit: notify.Limit{Key: []string{"metadata.order_id"}}, first: notify.Promo, second: notify.Update,
			change: func(_ *scene, first, second Event) { second.Object["order_id"] = first.Object["order_id"] }, want: heldByOne,
		},
		{
			name: "a type that is not capped counts by its key", limit: notify.Limit{Key: []string{"metadata.order_id"}}, first: notify.Security, second: notify.Promo,
			change: func(_ *scene, first, second Event) { second.Object["order_id"] = first.Object["order_id"] }, want: heldByOne,
		},
		{
			name: "no value of the key", limit: notify.Limit{Key: []string{"metadata.order_id"}}, first: notify.Promo, second: notify.Promo,
			change: func(_ *scene, first, second Event) {
				delete(first.Object, "order_id")
				delete(second.Object, "order_id")
			}, want: now,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.limit.Name, c.limit.Most = "one", 1
			s := limited(t, c.limit)
			first, second := s.event(c.first, s.noon), s.event(c.second, s.noon+1)
			if c.change != nil {
				c.change(s, first, second)
			}
			d := s.decide(first)
			s.expect(&d, now)
			d = s.decide(second)
			s.expect(&d, c.want)
		})
	}
}

// The reason LIMIT comes once, after the caps and before the cooldown.
func TestLimitComesOnceAfterTheCaps(t *testing.T) {
	s := limited(t, notify.Limit{Name: "one", Most: 1})
	s.set.Policy.Limits = append(s.set.Policy.Limits, notify.Limit{Name: "another", Most: 1, Within: hour})
	s.set.Policy.Caps[0] = 1
	s.set.Policy.Types[notify.Promo].Cooldown = hour
	s.comes(notify.Promo, s.noon)
	d := s.comes(notify.Promo, s.noon+1)
	s.expect(&d, want{
		outcome: notify.Later, reasons: reasons(notify.ReasonCap5M, notify.ReasonLimit, notify.ReasonCooldown), until: s.noon + day,
	})
}

// A rule's bypass of caps bypasses limits too.
func TestBypassOfCapsBypassesLimits(t *testing.T) {
	for _, c := range []struct {
		bypass []string
		want   want
	}{
		{[]string{"caps"}, want{outcome: notify.Now, reasons: reasons("R"), channels: channels(notify.Push, notify.Email)}},
		{[]string{"cooldown"}, heldByOne},
	} {
		s := limited(t, notify.Limit{Name: "one", Most: 1})
		s.set.Rules, _ = readRules([]byte(`{"rules":[` + ruleFor(notify.Alert, map[string]any{"outcome": "NOW", "reason_code": "R", "bypass": c.bypass}) + `]}`))
		s.comes(notify.Promo, s.noon)
		d := s.comes(notify.Alert, s.noon+1)
		s.expect(&d, c.want)
	}
}

// A channel limit holds those channels of the event that it names.
func TestALimitOfChannels(t *testing.T) {
	of := notify.Selector{Channels: channels(notify.Push, notify.SMS)}
	s := limited(t, notify.Limit{Name: "push", Most: 1, Of: of})
	s.set.Policy.Types[notify.Promo].OthersLater = true
	d := s.comes(notify.Promo, s.noon)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonScoreHigh), channels: channels(notify.Push, notify.Email)})
	e := s.event(notify.Promo, s.noon+1)
	d = s.decide(e)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonScoreHigh), channels: channels(notify.Email)})
	if len(d.FollowUps) != 1 || d.FollowUps[0].At != s.noon+day || d.FollowUps[0].Reason != notify.ReasonOtherChannel || d.FollowUps[0].EventID != notify.FollowID(e.ID, 1) {
		t.Errorf("%+v", d.FollowUps)
	}
	only := s.event(notify.Promo, s.noon+2)
	only.Channels = channels(notify.Push)
	d = s.decide(only)
	s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: s.noon + day})
	email := s.event(notify.Promo, s.noon+3)
	email.Channels = channels(notify.Email)
	d = s.decide(email)
	s.expect(&d, now)
}

// A message counts once; a digest's items are not held.
func TestADigestCountsOnceForALimit(t *testing.T) {
	s := limited(t, notify.Limit{Name: "two", Most: 2})
	id := func(uuid.UUID) uuid.UUID { return uuid.NameSpaceDNS }
	items := []Item{{Event: s.event(notify.Promo, s.noon), Turn: 1}, {Event: s.event(notify.Update, s.noon), Turn: 1}, {Event: s.event(notify.Promo, s.noon), Turn: 1}}
	s.user.Digest(s.set, items, id, s.noon)
	d := s.comes(notify.Promo, s.noon+1)
	s.expect(&d, now)
	d = s.comes(notify.Promo, s.noon+2)
	s.expect(&d, heldByOne)
	// Of its second type it counts for a limit that does not count the first.
	s = limited(t, notify.Limit{Name: "updates", Most: 1, Of: notify.Selector{Types: []notify.EventType{notify.Update}}})
	s.user.Digest(s.set, items, id, s.noon)
	d = s.comes(notify.Update, s.noon+1)
	s.expect(&d, heldByOne)
}

// takePlaces moves bulk slots out of the windows of limits that cover the event.
func TestAnUrgentEventTakesAPlaceOfALimit(t *testing.T) {
	s := limited(t, notify.Limit{Name: "one", Most: 1})
	s.comes(notify.Promo, s.noon)
	waits := s.comes(notify.Promo, s.noon+1)
	s.expect(&waits, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: s.noon + day})
	urgent := s.comes(notify.Alert, s.noon+2)
	s.expect(&urgent, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: s.noon + day})
	if len(urgent.Moved) != 1 || urgent.Moved[0] != (notify.Move{EventID: waits.EventID, At: s.noon + 2*day}) {
		t.Errorf("%+v", urgent.Moved)
	}
}

// when_capped: what a cap, a limit or a cooldown holds waits for a digest; a rule's LATER does not.
func TestWhenCappedDigest(t *testing.T) {
	s := limited(t, notify.Limit{Name: "one", Most: 1})
	s.set.Policy.Types[notify.Update].CappedToDigest = true
	s.comes(notify.Promo, s.noon)
	d := s.comes(notify.Update, s.noon+1)
	s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: at("2026-06-01T16:00:00.000Z"), key: "UPDATE"})
	if d.Reserved {
		t.Error("it has a slot")
	}
	s.set.Rules, _ = readRules([]byte(`{"rules":[` + ruleFor(notify.Update, map[string]any{"outcome": "LATER", "reason_code": "R", "defer_strategy": "next_hour"}) + `]}`))
	d = s.comes(notify.Update, s.noon+2)
	s.expect(&d, want{outcome: notify.Later, reasons: reasons("R", notify.ReasonLimit), until: s.noon + day})
}
