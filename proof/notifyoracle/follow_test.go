package notifyoracle

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// escalated has a rule by which an ALERT on push is followed by an SMS after an hour and by
// an e-mail after another one.
func escalated(t *testing.T, unless string) (*scene, Event, Decision) {
	s := newScene(t, ruleFor(notify.Alert, map[string]any{
		"outcome": "NOW", "reason_code": "R", "channel_override": []string{"push"},
		"escalate": []map[string]any{
			{"after": "1h", "channels": []string{"sms"}, "unless": unless},
			{"after": "1h", "channels": []string{"email"}, "unless": unless},
		},
	}))
	e := s.event(notify.Alert, s.noon)
	return s, e, s.decide(e)
}

// A child is due after its parent's NOW, and leaves the next step. Caps do not hold it; it
// leaves no mark and no send that caps count.
func TestAChainOfChannels(t *testing.T) {
	s, e, d := escalated(t, "read")
	s.expect(&d, want{outcome: notify.Now, reasons: reasons("R"), channels: channels(notify.Push)})
	s.set.Policy.Caps = notify.Caps{1, 1, 1}
	s.set.Policy.Types[notify.Alert].Cooldown = day
	for i, c := range [][]notify.Channel{channels(notify.SMS), channels(notify.Email)} {
		e = s.child(e, &d, 0)
		if f := d.FollowUps[0]; f.Step != i+1 || f.At != d.DecidedAt+hour || f.EventID != notify.FollowID(e.Follows.Root, i+1) || len(f.Then) != 1-i {
			t.Errorf("step %d: %+v", i+1, f)
		}
		d = s.user.Decide(s.set, e, Turn{Reported: notify.WasDelivered}, d.FollowUps[0].At)
		s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonEscalated), channels: c})
	}
	if len(d.FollowUps) != 0 {
		t.Errorf("a third step: %+v", d.FollowUps)
	}
	if st := s.user.State(); len(st.Sends) != 1 || len(st.Marks) != 1 || len(st.Sent) != 3 || st.LastSend[notify.Alert] != s.noon {
		t.Errorf("%+v", st)
	}
}

func TestWhatEndsAChain(t *testing.T) {
	read, delivered := want{outcome: notify.Never, reasons: reasons(notify.ReasonRead)}, want{outcome: notify.Never, reasons: reasons(notify.ReasonDelivered)}
	sent := want{outcome: notify.Now, reasons: reasons(notify.ReasonEscalated)}
	for _, c := range []struct {
		name     string
		unless   string
		reported notify.Reported
		change   func(s *scene, e Event)
		want     want
		next     bool
	}{
		{"read", "read", notify.WasClicked, nil, read, false},
		{"dismissed", "read", notify.WasDismissed, nil, read, false},
		{"delivered only", "read", notify.WasDelivered, nil, sent, true},
		{"delivered", "delivered", notify.WasDelivered, nil, delivered, false},
		{"delivered and read", "delivered", notify.WasOpened | notify.WasDelivered, nil, read, false},
		{"never", "never", notify.WasOpened, nil, sent, true},
		{"muted", "read", 0, func(s *scene, _ Event) { s.user.Preferences.Muted = []notify.EventType{notify.Alert} }, want{outcome: notify.Never, reasons: reasons(notify.ReasonMuted)}, false},
		{"no channel", "read", 0, func(s *scene, _ Event) { s.user.Preferences.Channels = channels(notify.Email) }, want{outcome: notify.Never, reasons: reasons(notify.ReasonNoChannel)}, true},
		{"expired", "read", 0, func(_ *scene, e Event) { e.ExpiresAt = e.Timestamp + hour }, want{outcome: notify.Never, reasons: reasons(notify.ReasonExpired)}, false},
		{"a rule's NEVER", "read", 0, func(s *scene, _ Event) {
			s.set.Rules, _ = readRules([]byte(`{"rules":[` + ruleFor(notify.Alert, map[string]any{"outcome": "NEVER", "reason_code": "R"}) + `]}`))
		}, want{outcome: notify.Never, reasons: reasons("R")}, false},
		{"a rule's LATER does not count", "read", 0, func(s *scene, _ Event) {
			s.set.Rules, _ = readRules([]byte(`{"rules":[` + ruleFor(notify.Alert, map[string]any{"outcome": "LATER", "reason_code": "R", "defer_strategy": "next_hour"}) + `]}`))
		}, sent, true},
		{"quiet hours hold it", "read", 0, func(s *scene, _ Event) {
			s.set.Rules, s.user.Preferences.SnoozedUntil = nil, s.noon+2*hour
		}, want{outcome: notify.Later, reasons: reasons(notify.ReasonSnoozed)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, e, d := escalated(t, c.unless)
			e = s.child(e, &d, 0)
			if c.change != nil {
				c.change(s, e)
			}
			d = s.user.Decide(s.set, e, Turn{Reported: c.reported}, s.noon+hour)
			s.expect(&d, c.want)
			if (len(d.FollowUps) == 1) != c.next {
				t.Errorf("it leaves %+v", d.FollowUps)
			}
		})
	}
}

// A follow-up that is due when it has expired is not made.
func TestNoFollowUpAfterExpiry(t *testing.T) {
	s, e, _ := escalated(t, "read")
	for after, n := range map[bool]int{false: 0, true: 1} {
		e.ID, e.ExpiresAt = uuid.New(), s.noon+hour
		if after {
			e.ExpiresAt++
		}
		if d := s.decide(e); len(d.FollowUps) != n {
			t.Errorf("%+v", d.FollowUps)
		}
	}
}

// A follow-up counts for limits of channels alone, and these hold it.
func TestFollowUpsAndLimits(t *testing.T) {
	s, e, d := escalated(t, "read")
	s.set.Policy.Limits = []notify.Limit{
		{Name: "all", Most: 1, Within: day},
		{Name: "sms", Most: 1, Within: day, Of: notify.Selector{Channels: channels(notify.SMS)}},
	}
	child := s.child(e, &d, 0)
	d = s.user.Decide(s.set, child, Turn{}, s.noon+hour)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonEscalated)})
	child.ID, s.set.Rules = uuid.New(), nil
	d = s.user.Decide(s.set, child, Turn{}, s.noon+2*hour)
	s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: s.noon + hour + day})
	s.set.Policy.Limits = s.set.Policy.Limits[:1]
	promo := s.comes(notify.Promo, s.noon+2*hour)
	s.expect(&promo, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit), until: s.noon + day}) // the root counts
}

// What is cancelled frees its slot and its mark.
func TestCancelled(t *testing.T) {
	s := newScene(t, "")
	s.set.Policy.Limits = []notify.Limit{{Name: "one", Most: 1, Within: day}}
	s.set.Policy.Types[notify.Promo].DuplicateWindow = day
	s.comes(notify.Update, s.noon)
	e := s.event(notify.Promo, s.noon)
	d := s.decide(e)
	s.expect(&d, heldByOne)
	d = s.user.Withdraw(s.set, e, Turn{Number: 1}, notify.ReasonCancelled, uuid.Nil, s.noon+1)
	s.expect(&d, want{outcome: notify.Never, reasons: reasons(notify.ReasonCancelled)})
	if st := s.user.State(); d.Turn != 1 || len(st.Slots) != 0 || len(st.Marks) != 1 {
		t.Errorf("%+v", st)
	}
}

// The new one takes the place of the one that it replaces, unless a rule forces it or stages
// 1 to 5 end it.
func TestReplaces(t *testing.T) {
	place := &notify.Place{DueAt: at("2026-06-01T16:00:00.000Z"), DigestKey: "PROMO", Slot: at("2026-06-01T16:00:00.000Z")}
	forced := ruleFor(notify.Alert, map[string]any{"outcome": "NOW", "reason_code": "R"})
	replaces := want{outcome: notify.Later, reasons: reasons(notify.ReasonReplaces), until: place.DueAt, key: "PROMO"}
	for _, c := range []struct {
		name   string
		kind   notify.EventType
		change func(s *scene, e Event)
		want   want
	}{
		{"its place", notify.Promo, nil, replaces},
		{"forced", notify.Alert, nil, want{outcome: notify.Now, reasons: reasons("R")}},
		{"stage 2 ends it", notify.Promo, func(s *scene, _ Event) { s.user.Preferences.Paused = true }, want{outcome: notify.Never, reasons: reasons(notify.ReasonPaused)}},
		{"it expires before", notify.Promo, func(_ *scene, e Event) { e.ExpiresAt = place.DueAt }, want{outcome: notify.Never, reasons: reasons(notify.ReasonExpiresFirst)}},
		{"the digest of its topic does not count", notify.Promo, func(s *scene, _ Event) {
			s.set.Policy.Topics = []notify.Topic{{Name: "all"}}
			s.user.Preferences.Topics = map[string]notify.TopicPreference{"all": choices(notify.ChoiceDigest, notify.ChoiceDigest)}
		}, replaces},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, forced)
			e := s.event(c.kind, s.noon)
			if c.change != nil {
				c.change(s, e)
			}
			d := s.user.Decide(s.set, e, Turn{Takes: place}, s.noon)
			s.expect(&d, c.want)
		})
	}
	s := newScene(t, "")
	e := s.event(notify.Promo, s.noon)
	d := s.user.Decide(s.set, e, Turn{Takes: &notify.Place{DueAt: s.noon + hour, Reserved: true}}, s.noon)
	if slots := s.user.State().Slots; !d.Reserved || len(slots) != 1 || slots[0].At != s.noon+hour || !slices.Equal(slots[0].Channels, e.Channels) {
		t.Errorf("%+v", slots)
	}
}
