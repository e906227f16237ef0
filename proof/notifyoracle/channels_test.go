package notifyoracle

import (
	"slices"
	"testing"

	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// At least one channel is open: quiet hours hold nothing, and the others are followed.
func TestAnAwakeChannelIsOpenAtNight(t *testing.T) {
	s := newScene(t, "")
	night, end := s.quietNight()
	s.set.Policy.Awake = notify.SetOf(channels(notify.InApp))
	e := s.event(notify.Update, night)
	e.Channels = channels(notify.Push, notify.InApp, notify.Email)
	d := s.decide(e)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonScoreHigh), channels: channels(notify.InApp)})
	if len(d.FollowUps) != 0 || !slices.Equal(d.Held, channels(notify.Push, notify.Email)) {
		t.Errorf("%+v", d) // other_channels is never
	}
	s.set.Policy.Types[notify.Update].OthersLater = true
	e.ID[0]++
	d = s.decide(e)
	child := s.child(e, &d, 0)
	f := d.FollowUps[0]
	if f.Step != 1 || f.At != end || f.Unless != notify.UnlessRead || !slices.Equal(child.Channels, channels(notify.Push, notify.Email)) {
		t.Errorf("%+v", f)
	}
	d = s.user.Decide(s.set, child, Turn{}, end)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonOtherChannel), channels: channels(notify.Push, notify.Email)})
	// No channel is awake: it waits for the end, and is spread after it.
	s = newScene(t, "")
	s.quietNight()
	d = s.comes(notify.Update, night)
	s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonQuietHours)})
	if d.DeferUntil < end || d.DeferUntil > end+10*minute {
		t.Errorf("until %v", d.DeferUntil.Time())
	}
}

// until is the least instant at which one channel is free: the one without a limit.
func TestTheFirstChannelThatIsFreeCounts(t *testing.T) {
	s := newScene(t, "")
	night, end := s.quietNight()
	s.set.Policy.Limits = []notify.Limit{{Name: "push", Most: 1, Within: day, Of: notify.Selector{Channels: channels(notify.Push)}}}
	d := s.comes(notify.Update, night-2*hour)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonScoreHigh)})
	d = s.comes(notify.Update, night)
	s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonLimit, notify.ReasonQuietHours)})
	if d.DeferUntil < end || d.DeferUntil > end+10*minute || !d.Reserved || !slices.Equal(d.Send.Channels, channels(notify.Email)) {
		t.Errorf("until %v, a slot on %v", d.DeferUntil.Time(), d.Send.Channels)
	}
}

// A NOW at the limit of deferrals passes limits, not quiet hours and snooze.
func TestTheLimitOfDeferralsKeepsQuietChannels(t *testing.T) {
	s := newScene(t, "")
	night, end := s.quietNight()
	s.set.Policy.Types[notify.Promo].NowAtLimit = true
	s.set.Policy.Limits = []notify.Limit{{Name: "one", Most: 1, Within: day}}
	s.comes(notify.Promo, night-hour-minute)
	last := Turn{Number: notify.MaxTurn}
	d := s.user.Decide(s.set, s.event(notify.Promo, s.noon), last, night)
	s.expect(&d, want{outcome: notify.Postponed, until: end, reasons: d.Reasons})
	s.set.Policy.Awake = notify.SetOf(channels(notify.Email))
	d = s.user.Decide(s.set, s.event(notify.Promo, s.noon), last, night)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonDeferLimit, notify.ReasonLimit), channels: channels(notify.Email)})
	if !slices.Equal(d.Held, channels(notify.Push)) {
		t.Errorf("held: %v", d.Held)
	}
}

// Items go out on the channels that quiet hours do not hold; a digest's slot moves to the
// first of their ends.
func TestItemsHeedQuietChannels(t *testing.T) {
	s := newScene(t, "")
	night, end := s.quietNight()
	item := Item{Event: s.event(notify.Promo, night), Turn: 1, Key: "PROMO"}
	d := s.user.DigestItem(s.set, item, item.Event.ID, night)
	s.expect(&d, want{outcome: notify.Postponed, until: end, reasons: d.Reasons, key: "PROMO"})
	s.set.Policy.Awake = notify.SetOf(channels(notify.Email))
	d = s.user.DigestItem(s.set, item, item.Event.ID, night)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonDigested), channels: channels(notify.Email)})
	s.set.Digests = []quiet.Clock{1380}
	for awake, until := range map[notify.Channel]string{notify.Email: "2026-06-01T21:00:00.000Z", notify.SMS: "2026-06-02T05:00:00.000Z"} {
		s.user = New().User("u")
		s.quietNight()
		s.set.Policy.Awake = notify.SetOf(channels(awake))
		s.set.Policy.Score.Now, s.set.Policy.Score.Later = 2, 0
		d = s.comes(notify.Promo, s.noon)
		s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonScoreDigest), until: at(until)})
	}
}

// topic has one topic of PROMO; preferences choose of it.
func topic(t *testing.T, choice notify.TopicPreference) *scene {
	s := newScene(t, "")
	s.set.Policy.Topics = []notify.Topic{{Name: "offers", Of: notify.Selector{Types: []notify.EventType{notify.Promo}}}}
	s.user.Preferences.Topics = map[string]notify.TopicPreference{"offers": choice}
	return s
}

func choices(push, email notify.Choice) (p notify.TopicPreference) {
	p.Channels[notify.Push], p.Channels[notify.Email] = push, email
	return p
}

func TestChoicesOfATopic(t *testing.T) {
	digest := at("2026-06-01T16:00:00.000Z")
	for _, c := range []struct {
		name   string
		choice notify.TopicPreference
		change func(s *scene)
		want   want
	}{
		{"off", choices(notify.ChoiceOff, 0), nil, want{outcome: notify.Now, reasons: now.reasons, channels: channels(notify.Email)}},
		{"all off", choices(notify.ChoiceOff, notify.ChoiceOff), nil, want{outcome: notify.Never, reasons: reasons(notify.ReasonNoChannel)}},
		{
			"digest only", choices(notify.ChoiceDigest, notify.ChoiceOff), nil,
			want{outcome: notify.Later, reasons: reasons(notify.ReasonTopicDigest), until: digest, key: "offers"},
		},
		{
			"own times of digests", choices(notify.ChoiceDigest, notify.ChoiceOff), func(s *scene) { s.user.Preferences.Digests = []quiet.Clock{1200} },
			want{outcome: notify.Later, reasons: reasons(notify.ReasonTopicDigest), until: digest + 2*hour},
		},
		{"a locked topic", choices(notify.ChoiceOff, notify.ChoiceOff), func(s *scene) { s.set.Policy.Topics[0].Locked = true }, now},
		{
			"a locked topic of a muted type", choices(0, 0),
			func(s *scene) {
				s.set.Policy.Topics[0].Locked, s.user.Preferences.Muted = true, []notify.EventType{notify.Promo}
			}, now,
		},
		{"paused", choices(0, 0), func(s *scene) { s.user.Preferences.Paused = true }, want{outcome: notify.Never, reasons: reasons(notify.ReasonPaused)}},
		{
			"muted before paused", choices(0, 0),
			func(s *scene) {
				s.user.Preferences.Paused, s.user.Preferences.Muted = true, []notify.EventType{notify.Promo}
			},
			want{outcome: notify.Never, reasons: reasons(notify.ReasonMuted)},
		},
		{
			"muted until later", choices(0, 0), func(s *scene) { s.user.Preferences.MutedUntil = s.noon + 1 },
			want{outcome: notify.Never, reasons: reasons(notify.ReasonMuted)},
		},
		{"muted until now", choices(0, 0), func(s *scene) { s.user.Preferences.MutedUntil = s.noon }, now},
		{"the topic is muted", notify.TopicPreference{MutedUntil: 1 << 50}, nil, want{outcome: notify.Never, reasons: reasons(notify.ReasonMuted)}},
		{"another topic is muted", notify.TopicPreference{MutedUntil: 1 << 50}, func(s *scene) { s.set.Policy.Topics[0].Of.Sources = []string{"x"} }, now},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := topic(t, c.choice)
			if c.change != nil {
				c.change(s)
			}
			d := s.comes(notify.Promo, s.noon)
			s.expect(&d, c.want)
		})
	}
}

// Some are on, some for digests: the others become a follow-up of step 5 in the digest, whose
// items go out on both.
func TestDigestChannelsFollow(t *testing.T) {
	s := topic(t, choices(0, notify.ChoiceDigest))
	digest := at("2026-06-01T16:00:00.000Z")
	e := s.event(notify.Promo, s.noon)
	d := s.decide(e)
	s.expect(&d, want{outcome: notify.Now, reasons: now.reasons, channels: channels(notify.Push)})
	child := s.child(e, &d, 0)
	if f := d.FollowUps[0]; f.Step != 5 || f.At != digest || f.Digest != "offers" || f.Unless != notify.UnlessNever || !slices.Equal(f.Channels, channels(notify.Email)) {
		t.Errorf("%+v", f)
	}
	d = s.user.DigestItem(s.set, Item{Event: child, Key: "offers"}, child.ID, digest)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonDigested), channels: channels(notify.Email)})
	if st := s.user.State(); len(st.Sends) != 1 || len(st.Marks) != 1 || len(st.Sent) != 2 || !st.Sent[1].Follow {
		t.Errorf("%+v", st)
	}
	item := Item{Event: s.event(notify.Promo, digest), Turn: 1, Key: "offers"}
	d = s.user.DigestItem(s.set, item, item.Event.ID, digest)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons(notify.ReasonDigested), channels: channels(notify.Push, notify.Email)})
}

// A rule's NOW that nothing holds goes out at once. The last turn is as usual.
func TestNoDigestOfATopic(t *testing.T) {
	s := topic(t, choices(notify.ChoiceDigest, notify.ChoiceDigest))
	d := s.user.Decide(s.set, s.event(notify.Promo, s.noon), Turn{Number: 1}, s.noon)
	s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonTopicDigest)})
	d = s.user.Decide(s.set, s.event(notify.Promo, s.noon), Turn{Number: 2}, s.noon)
	s.expect(&d, want{outcome: notify.Now, reasons: now.reasons, channels: channels(notify.Push, notify.Email)})
	s.set.Rules, _ = readRules([]byte(`{"rules":[` + ruleFor(notify.Promo, map[string]any{"outcome": "NOW", "reason_code": "R"}) + `]}`))
	d = s.comes(notify.Promo, s.noon)
	s.expect(&d, want{outcome: notify.Now, reasons: reasons("R")})
}

// Snooze holds every channel as quiet hours do, also those that are awake.
func TestSnooze(t *testing.T) {
	s := topic(t, notify.TopicPreference{SnoozedUntil: at("2026-06-01T12:00:00.000Z")})
	s.set.Policy.Awake = notify.SetOf(channels(notify.Push))
	s.user.Preferences.SnoozedUntil = at("2026-06-01T11:00:00.000Z")
	for kind, end := range map[notify.EventType]string{notify.Promo: "2026-06-01T12:00:00.000Z", notify.Update: "2026-06-01T11:00:00.000Z"} {
		d := s.comes(kind, s.noon)
		s.expect(&d, want{outcome: notify.Later, reasons: reasons(notify.ReasonSnoozed)})
		if d.DeferUntil < at(end) || d.DeferUntil > at(end)+10*minute {
			t.Errorf("%v waits until %v", kind, d.DeferUntil.Time())
		}
	}
	d := s.comes(notify.Security, s.noon) // quiet hours do not apply
	s.expect(&d, now)
	d = s.comes(notify.Promo, at("2026-06-01T12:00:00.000Z"))
	s.expect(&d, now)
}
