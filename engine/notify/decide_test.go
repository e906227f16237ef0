package notify

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
)

const (
	promoText = "Big summer sale on all garden furniture: come and visit us this weekend only"
	nearText  = "Huge summer sale on all garden furniture: come and see us this weekend only"
)

var stages = []struct {
	name    string
	change  func(s *scene)
	outcome Outcome
	reasons []string
	until   engine.Millis // after now
}{
	{"sent by its score", func(*scene) {}, Now, []string{ReasonScoreHigh}, 0},

	{"user erased", func(s *scene) { s.state.Erased = true }, Never, []string{ReasonUserErased}, 0},
	{"erased and expired", func(s *scene) { s.state.Erased, s.event.ExpiresAt = true, s.now }, Never, []string{ReasonUserErased}, 0},
	{"expired at this millisecond", func(s *scene) { s.event.ExpiresAt = s.now }, Never, []string{ReasonExpired}, 0},
	{"expires in a millisecond", func(s *scene) { s.event.ExpiresAt = s.now + 1 }, Now, []string{ReasonScoreHigh}, 0},
	{"expired by the state's time", func(s *scene) {
		s.event.ExpiresAt, s.state.DecidedAt = s.now+5, s.now+5
	}, Never, []string{ReasonExpired}, 0},

	{"muted", func(s *scene) { s.prefs.Muted = []EventType{Promo, Update} }, Never, []string{ReasonMuted}, 0},
	{"another type muted", func(s *scene) { s.prefs.Muted = []EventType{Promo} }, Now, []string{ReasonScoreHigh}, 0},
	{"SECURITY muted", func(s *scene) { s.event.Type, s.prefs.Muted = Security, EventTypes }, Now, []string{ReasonScoreHigh}, 0},
	{"no channel", func(s *scene) { s.prefs.Channels = []Channel{SMS} }, Never, []string{ReasonNoChannel}, 0},
	{"no channel of SECURITY", func(s *scene) { s.event.Type, s.prefs.Channels = Security, []Channel{SMS} }, Now, []string{ReasonScoreHigh}, 0},

	{"duplicate", func(s *scene) { s.marked(Update, s.event.Title, "", -day+1) }, Never, []string{ReasonDuplicate}, 0},
	{"duplicate that left the window", func(s *scene) { s.marked(Update, s.event.Title, "", -day) }, Now, []string{ReasonScoreHigh}, 0},
	{"duplicate of another type", func(s *scene) { s.marked(Promo, s.event.Title, "", -1) }, Now, []string{ReasonScoreHigh}, 0},
	{"its own mark", func(s *scene) {
		s.marked(Update, s.event.Title, "", -1)
		s.state.Marks[0].EventID = s.event.ID
	}, Now, []string{ReasonScoreHigh}, 0},
	{"window off", func(s *scene) {
		s.set.Policy.Types[Update].DuplicateWindow = 0
		s.marked(Update, s.event.Title, "", 0)
	}, Now, []string{ReasonScoreHigh}, 0},
	{"MESSAGE without a key", func(s *scene) {
		s.event.Type = Message
		s.marked(Message, s.event.Title, "", -1)
	}, Now, []string{ReasonScoreHigh}, 0},
	{"MESSAGE with another key", func(s *scene) {
		s.event.Type, s.event.DedupeKey = Message, "a"
		s.marked(Message, s.event.Title, "b", -1)
	}, Now, []string{ReasonScoreHigh}, 0},
	{"MESSAGE with the key", func(s *scene) {
		s.event.Type, s.event.DedupeKey = Message, "a"
		s.marked(Message, s.event.Title, "a", -5*minute+1)
	}, Never, []string{ReasonDuplicate}, 0},
	{"near duplicate", func(s *scene) {
		s.event.Type, s.event.Title = Promo, promoText
		s.marked(Promo, nearText, "", -1)
	}, Never, []string{ReasonNearDuplicate}, 0},
	{"near duplicate of a type that is not compared", func(s *scene) {
		s.event.Type, s.event.Title = System, promoText
		s.marked(System, nearText, "", -1)
	}, Now, []string{ReasonScoreHigh}, 0},

	{"rule NEVER", func(s *scene) { s.set.Rules = always(Action{Outcome: Never, Reason: "STOP"}) }, Never, []string{"STOP"}, 0},
	{"rule NOW", func(s *scene) { s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced}) }, Now, []string{"GO"}, 0},
	{"rule NOW past caps", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced})
		s.sent(-3, -2, -1)
	}, Now, []string{"GO"}, 0},
	{"rule NOW not past caps", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Bypass{Cooldown: true, Quiet: true}})
		s.sent(-3, -2, -1)
	}, Later, []string{ReasonCap5M}, 5*minute - 3},
	{"rule LATER 15 min", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: FixedDelay15m})
	}, Later, []string{"WAIT"}, 15 * minute},
	{"rule LATER next hour", func(s *scene) {
		s.now++
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: NextHour})
	}, Later, []string{"WAIT"}, hour - 1},
	{"rule LATER next morning", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: NextMorning})
	}, Later, []string{"WAIT"}, 19*hour + spreadOf(1)},
	{"rule LATER next quiet end", func(s *scene) {
		s.prefs.Quiet = night
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: NextQuietEnd})
	}, Later, []string{"WAIT"}, 18*hour + spreadOf(1)},
	{"rule LATER next quiet end without any", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: NextQuietEnd})
	}, Later, []string{"WAIT"}, 19*hour + spreadOf(1)},
	{"rule LATER digest", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: DigestWindow})
		s.sent(-3, -2, -1)
	}, Later, []string{"WAIT", ReasonCap5M}, 5 * hour},
	{"rule LATER and caps", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: FixedDelay15m})
		s.sent(-3, -2, -1)
	}, Later, []string{"WAIT", ReasonCap5M}, 15 * minute},
	{"rule spent", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: FixedDelay15m})
		s.turn = Turn{Number: 1, Spent: []uuid.UUID{idOf(9000)}}
	}, Now, []string{ReasonScoreHigh}, 0},

	{"cap of 5 min", func(s *scene) { s.sent(-5*minute+1, -2, -1) }, Later, []string{ReasonCap5M}, 1},
	{"cap of 5 min just free", func(s *scene) { s.sent(-5*minute, -2, -1) }, Now, []string{ReasonScoreHigh}, 0},
	{"cap of 1 h", func(s *scene) {
		s.sent(-hour+7, -50*minute, -40*minute, -30*minute, -20*minute, -10*minute)
	}, Later, []string{ReasonCap1H}, 7},
	{"cap of 24 h", func(s *scene) {
		for i := range 20 {
			s.sent(-day + 9 + engine.Millis(i)*70*minute)
		}
	}, Later, []string{ReasonCap24H}, 9},
	{"all caps", func(s *scene) {
		s.set.Policy.Caps = Caps{1, 1, 1}
		s.sent(-1)
	}, Later, []string{ReasonCap5M, ReasonCap1H, ReasonCap24H}, day - 1},
	{"the user's cap", func(s *scene) {
		s.prefs.Caps = Caps{0, 1, 0}
		s.sent(-30 * minute)
	}, Later, []string{ReasonCap1H}, 30 * minute},
	{"a type that is not capped", func(s *scene) {
		s.event.Type = Security
		s.sent(-3, -2, -1)
	}, Now, []string{ReasonScoreHigh}, 0},
	{"cooldown", func(s *scene) { s.state.LastSend[Update] = s.now - 30*minute + 1 }, Later, []string{ReasonCooldown}, 1},
	{"cooldown over", func(s *scene) { s.state.LastSend[Update] = s.now - 30*minute }, Now, []string{ReasonScoreHigh}, 0},
	{"cooldown of another type", func(s *scene) { s.state.LastSend[Promo] = s.now }, Now, []string{ReasonScoreHigh}, 0},
	{"quiet hours", func(s *scene) {
		s.prefs.Quiet = quiet.Hours{{From: 13 * 60, To: 14 * 60}}
	}, Later, []string{ReasonQuietHours}, hour + spreadOf(1)},
	{"quiet hours of a type that ignores them", func(s *scene) {
		s.event.Type, s.prefs.Quiet = Security, quiet.Hours{{From: 13 * 60, To: 14 * 60}}
	}, Now, []string{ReasonScoreHigh}, 0},
	{"quiet hours in the event's zone", func(s *scene) {
		s.event.Metadata = Metadata{{Path: "timezone", Value: Value{Kind: String, Text: "Asia/Kathmandu"}}}
		s.prefs.Quiet = quiet.Hours{{From: 17*60 + 45, To: 18 * 60}}
	}, Later, []string{ReasonQuietHours}, 15*minute + spreadOf(1)},
	{"a zone that is none", func(s *scene) {
		s.event.Metadata = Metadata{{Path: "timezone", Value: Value{Kind: String, Text: "Mars/Olympus"}}}
		s.prefs.Quiet = quiet.Hours{{From: 13 * 60, To: 14 * 60}}
	}, Later, []string{ReasonQuietHours}, hour + spreadOf(1)},
	{"a cap that frees in quiet hours", func(s *scene) {
		s.prefs.Quiet, s.set.Policy.Caps = quiet.Hours{{From: 14 * 60, To: 15 * 60}}, Caps{9, 9, 1}
		s.sent(-23*hour + 10*minute)
	}, Later, []string{ReasonCap24H}, 2*hour + spreadOf(1)},
	{"all that holds", func(s *scene) {
		s.prefs.Quiet, s.set.Policy.Caps = quiet.Hours{{From: 13 * 60, To: 14 * 60}}, Caps{1, 1, 1}
		s.sent(-1)
		s.state.LastSend[Update] = s.now - 1
	}, Later, []string{ReasonCap5M, ReasonCap1H, ReasonCap24H, ReasonCooldown, ReasonQuietHours}, day - 1},

	{"score for a digest", func(s *scene) { s.event.Type, s.event.Hint = Promo, Low }, Later, []string{ReasonScoreDigest}, 5 * hour},
	{"score for a digest on a later turn", func(s *scene) {
		s.event.Type, s.event.Hint, s.turn.Number = Promo, Low, 1
	}, Now, []string{ReasonScoreDigest}, 0},
	{"score too low", func(s *scene) { s.event.Type, s.event.Hint, s.set.Policy.Score.Later = Promo, Low, .5 }, Never, []string{ReasonScoreLow}, 0},
	{"digest slot in quiet hours", func(s *scene) {
		s.event.Type, s.event.Hint, s.prefs.Quiet = Promo, Low, quiet.Hours{{From: 17 * 60, To: 19*60 + 30}}
	}, Later, []string{ReasonScoreDigest}, 6*hour + 30*minute},

	{"limit, NOW", func(s *scene) {
		s.event.Type, s.turn.Number = Reminder, 2
		s.sent(-3, -2, -1)
	}, Now, []string{ReasonDeferLimit, ReasonCap5M}, 0},
	{"limit, NEVER", func(s *scene) {
		s.turn.Number = 2
		s.sent(-3, -2, -1)
	}, Never, []string{ReasonDeferLimit, ReasonCap5M}, 0},
	{"limit in quiet hours", func(s *scene) {
		s.event.Type, s.turn.Number, s.prefs.Quiet = Reminder, 2, quiet.Hours{{From: 13 * 60, To: 14 * 60}}
		s.sent(-3, -2, -1)
	}, Postponed, []string{ReasonDeferLimit}, hour},
	{"limit in quiet hours, expires first", func(s *scene) {
		s.event.Type, s.turn.Number, s.prefs.Quiet = Reminder, 2, quiet.Hours{{From: 13 * 60, To: 14 * 60}}
		s.event.ExpiresAt = s.now + hour
	}, Never, []string{ReasonExpiresFirst, ReasonQuietHours}, 0},
	{"limit, NEVER in quiet hours", func(s *scene) {
		s.turn.Number, s.prefs.Quiet = 2, quiet.Hours{{From: 13 * 60, To: 14 * 60}}
	}, Never, []string{ReasonDeferLimit, ReasonQuietHours}, 0},
	{"nothing holds it at the last turn", func(s *scene) { s.turn.Number = 2 }, Now, []string{ReasonScoreHigh}, 0},

	{"expires at the deferral's end", func(s *scene) {
		s.sent(-3, -2, -1)
		s.event.ExpiresAt = s.now + 5*minute - 3
	}, Never, []string{ReasonExpiresFirst, ReasonCap5M}, 0},
	{"expires after the deferral's end", func(s *scene) {
		s.sent(-3, -2, -1)
		s.event.ExpiresAt = s.now + 5*minute - 2
	}, Later, []string{ReasonCap5M}, 5*minute - 3},
	{"the spread fits before the expiry", func(s *scene) {
		s.prefs.Quiet = quiet.Hours{{From: 13 * 60, To: 14 * 60}}
		s.event.ExpiresAt = s.now + hour + 4
	}, Later, []string{ReasonQuietHours}, hour + 3},
	{"a rule's wait after the expiry", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Later, Reason: "WAIT", Strategy: FixedDelay15m})
		s.event.ExpiresAt = s.now + 15*minute
	}, Never, []string{ReasonExpiresFirst, "WAIT"}, 0},
	{"rule NOW past the cooldown alone", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Bypass{Cooldown: true}})
		s.state.LastSend[Update] = s.now - 1
	}, Now, []string{"GO"}, 0},
	{"rule NOW past the cooldown, held by a cap", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Bypass{Cooldown: true}})
		s.state.LastSend[Update] = s.now - 1
		s.sent(-3, -2, -1)
	}, Later, []string{ReasonCap5M}, 5*minute - 3},
	{"rule NOW not past the cooldown", func(s *scene) {
		s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Bypass{Caps: true, Quiet: true}})
		s.state.LastSend[Update] = s.now - 1
	}, Later, []string{ReasonCooldown}, 30*minute - 1},
	{"a slot after the expiry", func(s *scene) {
		s.event.Type, s.event.Hint, s.event.ExpiresAt = Promo, Low, s.now+5*hour
	}, Never, []string{ReasonExpiresFirst}, 0},
}

// spreadOf returns the spread of the event of a number.
func spreadOf(n int) engine.Millis {
	d := decision{event: &Notification{ID: idOf(n)}}
	return d.spread(0, moverQuiet, 0)
}

func TestStages(t *testing.T) {
	met := map[string]bool{}
	for _, tc := range stages {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.change(s)
			s.print()
			before := s.state.Clone()
			r := s.decide()
			if r.Outcome != tc.outcome || !slices.Equal(r.Reasons, tc.reasons) {
				t.Fatalf("%s %v, expected %s %v", r.Outcome, r.Reasons, tc.outcome, tc.reasons)
			}
			for _, reason := range r.Reasons {
				met[reason] = true
			}
			waits := r.Outcome == Later || r.Outcome == Postponed
			if waits && r.DeferUntil-r.DecidedAt != tc.until || !waits && r.DeferUntil != 0 {
				t.Errorf("until now + %d, expected now + %d", r.DeferUntil-r.DecidedAt, tc.until)
			}
			if (r.Outcome == Now) != (len(r.Channels) > 0) {
				t.Errorf("%s with the channels %v", r.Outcome, r.Channels)
			}
			if !reflect.DeepEqual(s.state, before) {
				t.Error("the state was changed")
			}
			if lines := Explain(&Decided{Record: r, Event: s.event}).Lines; len(lines) < 2 {
				t.Errorf("explained as %q", lines)
			}
		})
	}
	for _, tc := range wishStages {
		for _, reason := range tc.reasons {
			met[reason] = true
		}
	}
	met[ReasonDigested] = true                             // TestDigest
	met[ReasonCancelled], met[ReasonReplaced] = true, true // TestEnd
	for _, reason := range Reasons {
		if !met[reason] {
			t.Errorf("no test of %s", reason)
		}
	}
}
