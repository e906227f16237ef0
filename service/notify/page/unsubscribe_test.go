package page

import (
	"fmt"
	"testing"

	"keyfold/engine/notify"
)

// One more topic than preferences may have takes the place of one that is gone from the set.
func TestATopicThatIsGoneGivesWay(t *testing.T) {
	v := visit{set: &notify.Set{}}
	v.Topic, v.Channel = "offers", notify.Email
	v.set.Policy.Topics = []notify.Topic{{Name: "offers"}, {Name: "former-00"}}
	own := notify.Preferences{Topics: map[string]notify.TopicPreference{}}
	for n := range notify.MaxTopics {
		own.Topics[fmt.Sprintf("former-%02d", n)] = notify.TopicPreference{MutedUntil: 5}
	}
	got := v.turned(own, true).Topics
	if _, kept := got["former-00"]; len(got) != notify.MaxTopics || !kept || got["offers"].Channels[notify.Email] != notify.ChoiceOff {
		t.Errorf("%d topics, %+v", len(got), got["offers"])
	}
	if _, kept := got["former-01"]; kept || len(own.Topics) != notify.MaxTopics {
		t.Error("a topic that is gone is kept, or the stored preferences were changed")
	}
}
