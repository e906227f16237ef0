package notify

import (
	"slices"
	"testing"
)

// A step of a chain has no channel by which the event went before.
func TestAChainUsesEachChannelOnce(t *testing.T) {
	s := newScene()
	s.event.Channels = []Channel{Push, InApp}
	s.set.Rules = always(Action{Outcome: Now, Reason: "GO", Bypass: Forced, Escalate: []Escalation{
		{After: minute, Channels: []Channel{Push}, Unless: UnlessRead},
		{After: minute, Channels: []Channel{InApp, SMS}, Unless: UnlessRead},
	}})
	r := s.decide()
	if len(r.Facts.FollowUps) != 1 {
		t.Fatalf("%s %v, follow-ups %+v", r.Outcome, r.Reasons, r.Facts.FollowUps)
	}
	if f := r.Facts.FollowUps[0]; !slices.Equal(f.Channels, []Channel{SMS}) || f.At != s.now+2*minute {
		t.Errorf("the step has %v, %d ms after the first", f.Channels, f.At-s.now)
	}
}
