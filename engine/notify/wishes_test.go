package notify

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
	"keyfold/internal/testserver/must"
)

// limited gives a scene's set limits.
func (s *scene) limited(limits ...Limit) {
	s.set.Policy.Limits = limits
	s.set.Policy.Prepare()
	s.set.Policy.Types[Update].Cooldown = 0
}

// counted adds a send as limits count it, of another event, at an offset from now.
func (s *scene) counted(n Notification, offset engine.Millis) {
	if n.Type == 0 {
		n.Type = Update
	}
	sent := s.set.Policy.SentOf(&n, n.Channels)
	sent.At = s.now + offset
	s.state.Sent = append(s.state.Sent, sent)
}

func order(id string) Metadata {
	return Metadata{{Path: "order_id", Value: Value{Kind: String, Text: id}}}
}

var noon = quiet.Hours{{From: 13 * 60, To: 14 * 60}} // an hour from the scene's now on

// wishStages are the stages of what users and teams wish: limits, channels, topics, follow-ups.
var wishStages = []struct {
	name     string
	change   func(s *scene)
	outcome  Outcome
	reasons  []string
	until    engine.Millis // after now
	channels []Channel     // of NOW
}{
	{"a limit by type", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Update}}, Most: 2, Within: day})
		s.counted(Notification{}, -day+3)
		s.counted(Notification{}, -1)
	}, Later, []string{ReasonLimit}, 3, nil},
	{"a limit by type that left its span", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Update}}, Most: 1, Within: day})
		s.counted(Notification{}, -day)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"another type's sends", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Update}}, Most: 1, Within: day})
		s.counted(Notification{Type: Promo}, -1)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"a limit by source", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Sources: []string{"orders"}}, Most: 1, Within: hour})
		s.counted(Notification{Type: Promo, Source: "orders"}, -1)
	}, Later, []string{ReasonLimit}, hour - 1, nil},
	{"a limit of another source", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Sources: []string{"crm"}}, Most: 1, Within: hour})
		s.counted(Notification{Source: "crm"}, -1)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"a limit by key", func(s *scene) {
		s.limited(Limit{Name: "a", Key: []string{"metadata.order_id"}, Most: 1, Within: hour})
		s.event.Metadata = order("17")
		s.counted(Notification{Metadata: order("17")}, -5)
	}, Later, []string{ReasonLimit}, hour - 5, nil},
	{"a limit by key of another value", func(s *scene) {
		s.limited(Limit{Name: "a", Key: []string{"metadata.order_id"}, Most: 1, Within: hour})
		s.event.Metadata = order("17")
		s.counted(Notification{Metadata: order("18")}, -5)
		s.counted(Notification{}, -4)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"an event without the key", func(s *scene) {
		s.limited(Limit{Name: "a", Key: []string{"metadata.order_id"}, Most: 1, Within: hour})
		s.counted(Notification{}, -5)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"a limit of one channel leaves the other", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Channels: []Channel{Push}}, Most: 1, Within: hour})
		s.counted(Notification{Channels: []Channel{Push, SMS}}, -5)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Email}},
	{"a limit of both channels", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Channels: []Channel{Push, Email}}, Most: 1, Within: hour})
		s.counted(Notification{Channels: []Channel{Email}}, -5)
	}, Later, []string{ReasonLimit}, hour - 5, nil},
	{"the channel that is free first", func(s *scene) {
		s.limited(
			Limit{Name: "a", Of: Selector{Channels: []Channel{Push}}, Most: 1, Within: hour},
			Limit{Name: "b", Of: Selector{Channels: []Channel{Email}}, Most: 1, Within: 10 * minute},
		)
		s.counted(Notification{Channels: []Channel{Push, Email}}, -5)
	}, Later, []string{ReasonLimit}, 10*minute - 5, nil},
	{"limits do not bound types that only count", func(s *scene) {
		s.event.Type = Security
		s.limited(Limit{Name: "a", Of: Selector{Sources: []string{"orders"}}, Most: 1, Within: hour})
		s.counted(Notification{Type: Security, Source: "orders"}, -1)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"limits that name them do", func(s *scene) {
		s.event.Type = Security
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Security}}, Most: 1, Within: hour})
		s.counted(Notification{Type: Security}, -1)
	}, Later, []string{ReasonLimit}, hour - 1, nil},
	{"a message counts once", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Update, Promo}}, Most: 2, Within: hour})
		s.counted(Notification{}, -5)
		s.counted(Notification{Type: Promo}, -5)
		s.state.Sent[1].Item = true
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"a message counts by any of its items", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Update}}, Most: 1, Within: hour})
		s.counted(Notification{Type: Promo}, -5)
		s.counted(Notification{}, -5)
		s.state.Sent[1].Item = true
	}, Later, []string{ReasonLimit}, hour - 5, nil},
	{"a follow-up counts for its channels alone", func(s *scene) {
		s.limited(
			Limit{Name: "a", Of: Selector{Types: []EventType{Update}}, Most: 1, Within: hour},
			Limit{Name: "b", Of: Selector{Channels: []Channel{Email}}, Most: 1, Within: hour},
		)
		s.counted(Notification{Follows: &Follows{}, Channels: []Channel{Email}}, -5)
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push}},
	{"a rule that passes caps passes limits", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Update}}, Most: 1, Within: day})
		s.counted(Notification{}, -1)
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced})
	}, Now, []string{"GO"}, 0, []Channel{Push, Email}},
	{"a cap and a limit", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Update}}, Most: 1, Within: hour})
		s.sent(-3, -2, -1)
		s.counted(Notification{}, -1)
	}, Later, []string{ReasonCap5M, ReasonLimit}, hour - 1, nil},
	{"the limit of deferrals passes limits", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Types: []EventType{Reminder}}, Most: 1, Within: hour})
		s.event.Type, s.turn.Number = Reminder, MaxTurn
		s.counted(Notification{Type: Reminder}, -1)
	}, Now, []string{ReasonDeferLimit, ReasonLimit}, 0, []Channel{Push, Email}},

	{"a channel that quiet hours leave alone", func(s *scene) {
		s.prefs.Quiet, s.set.Policy.Awake = noon, SetOf([]Channel{Email})
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Email}},
	{"none of its channels is awake", func(s *scene) {
		s.prefs.Quiet, s.set.Policy.Awake = noon, SetOf([]Channel{InApp})
	}, Later, []string{ReasonQuietHours}, hour + spreadOf(1), nil},
	{"the awake channel is at its limit", func(s *scene) {
		s.limited(Limit{Name: "a", Of: Selector{Channels: []Channel{Email}}, Most: 1, Within: 10 * minute})
		s.prefs.Quiet, s.set.Policy.Awake = noon, SetOf([]Channel{Email})
		s.counted(Notification{Channels: []Channel{Email}}, -1)
	}, Later, []string{ReasonLimit, ReasonQuietHours}, 10*minute - 1, nil},
	{"the limit of deferrals in quiet hours, awake", func(s *scene) {
		s.prefs.Quiet, s.set.Policy.Awake = noon, SetOf([]Channel{Email})
		s.event.Type, s.turn.Number = Reminder, MaxTurn
		s.sent(-3, -2, -1)
	}, Now, []string{ReasonDeferLimit, ReasonCap5M}, 0, []Channel{Email}},

	{"paused", func(s *scene) { s.prefs.Paused = true }, Never, []string{ReasonPaused}, 0, nil},
	{"SECURITY is not paused", func(s *scene) { s.event.Type, s.prefs.Paused = Security, true }, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"a locked topic is not paused", func(s *scene) {
		s.prefs.Paused, s.prefs.SnoozedUntil = true, s.now+hour
		s.set.Policy.Topics = []Topic{{Name: "t", Locked: true}}
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"muted until a time", func(s *scene) { s.prefs.MutedUntil = s.now + 1 }, Never, []string{ReasonMuted}, 0, nil},
	{"muted until now", func(s *scene) { s.prefs.MutedUntil = s.now }, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"the topic is muted", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "o", Of: Selector{Types: []EventType{Promo}}}, {Name: "t", Of: Selector{Sources: []string{"orders"}}}}
		s.prefs.Topics = map[string]TopicPreference{"t": {MutedUntil: s.now + 1}}
	}, Never, []string{ReasonMuted}, 0, nil},
	{"another topic is muted", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "o", Of: Selector{Types: []EventType{Promo}}}, {Name: "t"}}
		s.prefs.Topics = map[string]TopicPreference{"o": {MutedUntil: s.now + 1}}
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"snoozed", func(s *scene) { s.prefs.SnoozedUntil = s.now + hour }, Later, []string{ReasonSnoozed}, hour + spreadOf(1), nil},
	{"snoozed, awake or not", func(s *scene) {
		s.prefs.SnoozedUntil, s.set.Policy.Awake = s.now+hour, SetOf([]Channel{Email})
	}, Later, []string{ReasonSnoozed}, hour + spreadOf(1), nil},
	{"snoozed into quiet hours", func(s *scene) {
		s.prefs.SnoozedUntil, s.prefs.Quiet = s.now+30*minute, noon
	}, Later, []string{ReasonSnoozed, ReasonQuietHours}, hour + spreadOf(1), nil},
	{"a channel of the topic is off", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "t"}}
		s.prefs.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{Push: ChoiceOff, Email: ChoiceOn}}}
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Email}},
	{"all channels of the topic are off", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "t"}}
		s.prefs.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{Push: ChoiceOff, Email: ChoiceOff}}}
	}, Never, []string{ReasonNoChannel}, 0, nil},
	{"the topic is wanted in digests", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "t"}}
		s.prefs.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{Push: ChoiceOff, Email: ChoiceDigest}}}
	}, Later, []string{ReasonTopicDigest}, 5 * hour, nil},
	{"the user's own time of digests", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "t"}}
		s.prefs.Digests = []quiet.Clock{20 * 60}
		s.prefs.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{Push: ChoiceDigest, Email: ChoiceDigest}}}
		s.sent(-3, -2, -1)
	}, Later, []string{ReasonTopicDigest}, 7 * hour, nil},
	{"a rule sends what is wanted in digests", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "t"}}
		s.prefs.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{Push: ChoiceDigest, Email: ChoiceOff}}}
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced})
	}, Now, []string{"GO"}, 0, []Channel{Push}},
	{"some channels at once, others in digests", func(s *scene) {
		s.set.Policy.Topics = []Topic{{Name: "t"}}
		s.prefs.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{Email: ChoiceDigest}}}
	}, Now, []string{ReasonScoreHigh}, 0, []Channel{Push}},

	{"caps make it wait for a digest", func(s *scene) {
		s.set.Policy.Types[Update].CappedToDigest = true
		s.sent(-3, -2, -1)
	}, Later, []string{ReasonCap5M}, 5 * hour, nil},
	{"quiet hours alone do not", func(s *scene) {
		s.set.Policy.Types[Update].CappedToDigest, s.prefs.Quiet = true, noon
	}, Later, []string{ReasonQuietHours}, hour + spreadOf(1), nil},

	{"takes a place", func(s *scene) {
		s.turn.Takes = &Place{DueAt: s.now + 7, Reserved: true}
	}, Later, []string{ReasonReplaces}, 7, nil},
	{"takes a place whose time has come", func(s *scene) { s.turn.Takes = &Place{DueAt: s.now} }, Now, []string{ReasonScoreHigh}, 0, []Channel{Push, Email}},
	{"takes a place after its expiry", func(s *scene) {
		s.turn.Takes, s.event.ExpiresAt = &Place{DueAt: s.now + 7}, s.now+7
	}, Never, []string{ReasonExpiresFirst}, 0, nil},

	{"a follow-up goes past caps and cooldown", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated}
		s.sent(-3, -2, -1)
		s.state.LastSend[Update] = s.now - 1
		s.marked(Update, s.event.Title, "", -1)
	}, Now, []string{ReasonEscalated}, 0, []Channel{Push, Email}},
	{"a follow-up of what was read", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated}
		s.turn.Reported = WasDelivered | WasClicked
	}, Never, []string{ReasonRead}, 0, nil},
	{"a follow-up of what was delivered, unless read", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated}
		s.turn.Reported = WasDelivered
	}, Now, []string{ReasonEscalated}, 0, []Channel{Push, Email}},
	{"a follow-up of what was delivered, unless delivered", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessDelivered, Reason: ReasonEscalated}
		s.turn.Reported = WasDelivered
	}, Never, []string{ReasonDelivered}, 0, nil},
	{"a follow-up in quiet hours", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonOtherChannel}
		s.prefs.Quiet = noon
	}, Later, []string{ReasonQuietHours}, hour + spreadOf(1), nil},
	{"a follow-up on other channels", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessNever, Reason: ReasonOtherChannel}
		s.turn.Reported = WasOpened
	}, Now, []string{ReasonOtherChannel}, 0, []Channel{Push, Email}},
	{"a rule's LATER does not defer a follow-up", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated}
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: FixedDelay15m, Channels: []Channel{SMS}})
	}, Now, []string{ReasonEscalated}, 0, []Channel{Push, Email}},
	{"a rule's NEVER ends a follow-up", func(s *scene) {
		s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated}
		s.set.Rules = always(Action{Outcome: Never, Reason: "STOP"})
	}, Never, []string{"STOP"}, 0, nil},
}

func TestWishes(t *testing.T) {
	for _, tc := range wishStages {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.change(s)
			s.print()
			before := s.state.Clone()
			r := s.decide()
			if r.Outcome != tc.outcome || !slices.Equal(r.Reasons, tc.reasons) || !slices.Equal(r.Channels, tc.channels) {
				t.Fatalf("%s %v by %v, expected %s %v by %v", r.Outcome, r.Reasons, r.Channels, tc.outcome, tc.reasons, tc.channels)
			}
			if r.Outcome == Later && r.DeferUntil-r.DecidedAt != tc.until {
				t.Errorf("until now + %d, expected now + %d", r.DeferUntil-r.DecidedAt, tc.until)
			}
			if !reflect.DeepEqual(s.state, before) {
				t.Error("the state was changed")
			}
			if x := Explain(&Decided{Record: r, Event: s.event}); len(x.Lines) < 2 || (r.Outcome != Now) != (len(x.NotNow) > 0) || x.DecidedBy == "" {
				t.Errorf("explained as %q, %q, by %q", x.Lines, x.NotNow, x.DecidedBy)
			}
			again := r
			text, err := r.MarshalJSON()
			if err == nil {
				again = Record{}
				err = again.UnmarshalJSON(text)
			}
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("%v: wrote %+v, read %+v", err, r, again)
			}
		})
	}
}

// What a NOW leaves for other channels.
func TestFollowUps(t *testing.T) {
	two := []Escalation{{After: hour, Channels: []Channel{Email}, Unless: UnlessRead}, {After: day, Channels: []Channel{SMS}, Unless: UnlessNever}}
	escalates := func(s *scene) {
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced, Escalate: two})
	}
	night := func(s *scene) {
		s.prefs.Quiet, s.set.Policy.Awake, s.set.Policy.Types[Update].OthersLater = noon, SetOf([]Channel{Email}), true
	}
	for _, tc := range []struct {
		name   string
		change func(s *scene)
		want   []FollowUp
	}{
		{"none", func(*scene) {}, nil},
		{"a chain", func(s *scene) {
			escalates(s)
			s.event.Channels = []Channel{Push}
		}, []FollowUp{{FollowID(idOf(1), 1), 1, []Channel{Email}, hour, UnlessRead, ReasonEscalated, "", two[1:], []Channel{Push}}}},
		{"a step whose channel was used is passed over", escalates, []FollowUp{
			{FollowID(idOf(1), 1), 1, []Channel{SMS}, hour + day, UnlessNever, ReasonEscalated, "", nil, []Channel{Push, Email}},
		}},
		{"the chain's next step", func(s *scene) {
			escalates(s)
			s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated, Then: two[1:]}
		}, []FollowUp{{FollowID(idOf(5), 2), 2, []Channel{SMS}, day, UnlessNever, ReasonEscalated, "", nil, []Channel{Push, Email}}}},
		{"the next step follows one without a channel", func(s *scene) {
			s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated, Then: two[1:]}
			s.prefs.Channels = []Channel{SMS}
		}, []FollowUp{{FollowID(idOf(5), 2), 2, []Channel{SMS}, day, UnlessNever, ReasonEscalated, "", nil, nil}}},
		{"no step follows one that was read", func(s *scene) {
			s.event.Follows = &Follows{Root: idOf(5), Step: 1, Unless: UnlessRead, Reason: ReasonEscalated, Then: two[1:]}
			s.turn.Reported = WasOpened
		}, nil},
		{"a chain has an end", func(s *scene) {
			s.event.Follows = &Follows{Root: idOf(5), Step: MaxSteps, Unless: UnlessNever, Reason: ReasonEscalated, Then: two}
		}, nil},
		{"a step after the expiry", func(s *scene) {
			escalates(s)
			s.event.ExpiresAt = s.now + hour
		}, nil},
		{"what quiet hours hold", night, []FollowUp{{FollowID(idOf(1), 1), 1, []Channel{Push}, hour, UnlessRead, ReasonOtherChannel, "", nil, []Channel{Email}}}},
		{"what quiet hours hold is dropped", func(s *scene) {
			night(s)
			s.set.Policy.Types[Update].OthersLater = false
		}, nil},
		{"what quiet hours hold of a follow-up", func(s *scene) {
			night(s)
			s.event.Follows = &Follows{Root: idOf(5), Step: 2, Unless: UnlessRead, Reason: ReasonEscalated}
		}, []FollowUp{{FollowID(idOf(5), 3), 3, []Channel{Push}, hour, UnlessRead, ReasonOtherChannel, "", nil, []Channel{Email}}}},
		{"a channel in a digest, and one that quiet hours hold", func(s *scene) {
			night(s)
			s.event.Channels = []Channel{Push, SMS, Email}
			s.set.Policy.Topics = []Topic{{Name: "t"}}
			s.prefs.Topics = map[string]TopicPreference{"t": {Channels: [channelCount]Choice{SMS: ChoiceDigest}}}
		}, []FollowUp{
			{FollowID(idOf(1), 1), 1, []Channel{Push}, hour, UnlessRead, ReasonOtherChannel, "", nil, []Channel{Email, SMS}},
			{FollowID(idOf(1), 5), 5, []Channel{SMS}, 5 * hour, UnlessNever, ReasonDigested, "t", nil, nil},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.change(s)
			s.print()
			for i := range tc.want {
				tc.want[i].At += s.now
			}
			s.event.Body = []byte(`{"event_id":"` + s.event.ID.String() + `","user_id":"u","event_type":"UPDATE","title":"Order 1001 shipped","source":"orders",
				"priority_hint":"CRITICAL","channel":["push","email"],"timestamp":"2026-03-10T12:00:00Z","replaces":"` + idOf(7).String() + `"}`)
			r := s.decide()
			if !reflect.DeepEqual(r.Facts.FollowUps, tc.want) {
				t.Fatalf("%s %v: %+v\nwant %+v", r.Outcome, r.Reasons, r.Facts.FollowUps, tc.want)
			}
			for i := range r.Facts.FollowUps {
				f := &r.Facts.FollowUps[i]
				due, err := s.event.FollowUp(f)
				must.OK(t, err)
				stored, err := ParseStored(due.Event.Body)
				if err != nil || stored.ID != f.EventID || stored.Follows == nil || !slices.Equal(stored.Channels, f.Channels) || stored.Title != s.event.Title || stored.Replaces.Any() {
					t.Errorf("%v: %+v", err, stored)
				}
				if err == nil && (stored.Follows.Step != f.Step || stored.Follows.Unless != f.Unless || stored.Follows.Reason != f.Reason || len(stored.Follows.Then) != len(f.Then)) {
					t.Errorf("it follows as %+v, want %+v", stored.Follows, f)
				}
				if _, err := Parse(due.Event.Body, s.now); err == nil {
					t.Error("a service may post a follow-up")
				}
			}
		})
	}
}

// A record folds into what limits count; a follow-up leaves neither mark nor pause.
func TestFoldOfFollowUps(t *testing.T) {
	s := newScene()
	s.set.Policy.Types[Update].Cooldown = 0
	r := s.decide()
	s.state.Fold(&r)
	s.event.ID, s.event.Follows = FollowID(idOf(1), 1), &Follows{Root: idOf(1), Step: 1, Unless: UnlessNever, Reason: ReasonEscalated}
	s.event.Channels, s.now = []Channel{SMS}, s.now+5
	r = s.decide()
	s.state.Fold(&r)
	want := []Sent{
		{At: testNow, Type: Update, Source: SourceHash("orders"), Channels: SetOf([]Channel{Push, Email})},
		{At: testNow + 5, Type: Update, Source: SourceHash("orders"), Channels: SetOf([]Channel{SMS}), Follow: true},
	}
	if !slices.Equal(s.state.Sent, want) || len(s.state.Sends) != 1 || len(s.state.Marks) != 1 || s.state.LastSend[Update] != testNow {
		t.Errorf("%+v", s.state)
	}
}

// A digest counts once, whatever its first item is.
func TestFoldOfDigests(t *testing.T) {
	s, id := &State{}, uuid.New()
	add := func(step int, kind EventType, digest uuid.UUID) {
		s.Fold(&Record{
			EventID: uuid.New(), Type: kind, Source: "a", Outcome: Now, Reasons: []string{ReasonDigested}, DigestID: digest, DecidedAt: testNow,
			Facts: Facts{Horizon: day, Step: step},
		})
	}
	for _, kind := range []EventType{Update, Update, Promo, Update, Promo} {
		add(5*len(s.Sent)%3, kind, id) // the first one is no follow-up, some later ones are
	}
	if len(s.Sends) != 1 {
		t.Errorf("a digest counts %d times", len(s.Sends))
	}
	other := uuid.New()
	add(5, Update, other)
	if len(s.Sends) != 1 {
		t.Error("a digest of a follow-up counts")
	}
	add(0, Update, other)
	add(0, Promo, other)
	if len(s.Sends) != 2 {
		t.Errorf("a digest that a follow-up begins counts %d times", len(s.Sends)-1)
	}
}

// What waits for a limit has a slot of its own, one after the other.
func TestLimitsReserve(t *testing.T) {
	l := newLine(t)
	l.set.Policy.Caps = Caps{250, 250, 250}
	l.set.Policy.Limits = []Limit{{Name: "orders", Of: Selector{Sources: []string{"orders"}}, Most: 2, Within: hour}}
	l.set.Policy.Prepare()
	for i, want := range []engine.Millis{0, 0, hour, hour, 2 * hour} {
		r := l.arrive(i+1, Message, testNow)
		if got := goes(&r) - testNow; got != want || r.Facts.Reserved != (want > 0) {
			t.Errorf("number %d waits for %d, want %d; reserved %v", i+1, got, want, r.Facts.Reserved)
		}
	}
	l.finish()
	if ends := l.ends(); ends["NOW SCORE_HIGH"] != 5 {
		t.Errorf("%v", ends)
	}
}

// The urgent class takes a bulk place that a limit counts, and its owner gets the next one.
func TestUrgentTakesAPlaceOfALimit(t *testing.T) {
	l := newLine(t)
	l.set.Policy.Caps = Caps{250, 250, 250}
	l.set.Policy.Types[Update].Cooldown = 0
	l.set.Policy.Limits = []Limit{{Name: "orders", Of: Selector{Sources: []string{"orders"}}, Most: 2, Within: hour}}
	l.set.Policy.Prepare()
	l.arrive(1, Update, testNow)
	l.arrive(2, Update, testNow+10*minute)
	waits := l.arrive(3, Update, testNow+20*minute) // until the first leaves
	r := l.arrive(4, Message, testNow+30*minute)
	if r.Outcome != Later || r.DeferUntil != testNow+hour || len(r.Facts.Moved) != 1 || r.Facts.Moved[0] != (Move{waits.EventID, testNow + 70*minute}) {
		t.Errorf("%s until %d, moved %+v", r.Outcome, r.DeferUntil-testNow, r.Facts.Moved)
	}
	l.finish()
}

// End ends what waits, whatever the set says, and the slot is given back.
func TestEnd(t *testing.T) {
	l := newLine(t)
	for n := range 4 {
		l.arrive(n+1, Message, testNow)
	}
	d := l.waiting[0]
	for _, reason := range []string{ReasonCancelled, ReasonReplaced} {
		r := End(l.set, &l.prefs, l.state, d.Event, d.Turn, reason, idOf(77), testNow+1)
		if r.Outcome != Never || r.Reasons[0] != reason || r.Turn != 1 || r.DuplicateOf != idOf(77) || r.Stage() != 1 {
			t.Errorf("%+v", r)
		}
		state := l.state.Clone()
		if state.Fold(&r); len(state.Reserved) != 0 || len(state.Marks) != 3 {
			t.Errorf("%d reserved, %d marks", len(state.Reserved), len(state.Marks))
		}
	}
	if r := End(l.set, &l.prefs, &State{Erased: true}, d.Event, d.Turn, ReasonCancelled, uuid.Nil, testNow); r.Reasons[0] != ReasonUserErased {
		t.Errorf("of an erased user: %v", r.Reasons)
	}
}
