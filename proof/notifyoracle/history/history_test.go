package history

import (
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// TestHistoriesAreDecidedAsTheOracleSays compares random histories. A million of them:
// go run ./bench notify histories --count 1000000.
//
// Promise(notify-worker/large-digests)
func TestHistoriesAreDecidedAsTheOracleSays(t *testing.T) {
	w, err := New()
	must.OK(t, err)
	decisions := 0
	for number := range uint64(histories) {
		n, err := w.Run(number)
		must.OK(t, err)
		decisions += n
	}
	if decisions < 8*histories {
		t.Errorf("%d histories have %d decisions only", histories, decisions)
	}
	if histories < 1000 {
		return // too few to meet each case
	}
	if w.Seen[severalMessages] < histories/500 {
		t.Errorf("%d digests have several messages", w.Seen[severalMessages])
	}
	for _, c := range cases {
		if w.Seen[c] < histories/200 {
			t.Errorf("%d decisions are %v %s", w.Seen[c], c.Outcome, c.Reason)
		}
	}
	if w.Seen[slotsEnded] == 0 {
		t.Error("no merge has ended a slot")
	}
	for _, c := range newCases {
		if w.Seen[c] < histories/400 {
			t.Errorf("%d decisions are %v %s", w.Seen[c], c.Outcome, c.Reason)
		}
	}
}

// newCases are what the new half of the histories must meet.
var newCases = []Case{
	{notify.Never, notify.ReasonPaused},
	{notify.Never, notify.ReasonCancelled},
	{notify.Never, notify.ReasonReplaced},
	{notify.Never, notify.ReasonRead},
	{notify.Never, notify.ReasonDelivered},
	{notify.Later, notify.ReasonLimit},
	{notify.Later, notify.ReasonSnoozed},
	{notify.Later, notify.ReasonTopicDigest},
	{notify.Later, notify.ReasonReplaces},
	{notify.Now, notify.ReasonEscalated},
	{notify.Now, notify.ReasonOtherChannel},
	merged,
	ofTwo,
}

// cases are what histories must meet often enough to prove anything.
var cases = []Case{
	{notify.Never, notify.ReasonUserErased},
	{notify.Never, notify.ReasonExpired},
	{notify.Never, notify.ReasonMuted},
	{notify.Never, notify.ReasonNoChannel},
	{notify.Never, notify.ReasonDuplicate},
	{notify.Never, notify.ReasonNearDuplicate},
	{notify.Never, "RULE_0"},
	{notify.Now, "RULE_0"},
	{notify.Later, "RULE_0"},
	{notify.Later, notify.ReasonCap5M},
	{notify.Later, notify.ReasonCap1H},
	{notify.Later, notify.ReasonCap24H},
	{notify.Later, notify.ReasonCooldown},
	{notify.Later, notify.ReasonQuietHours},
	{notify.Now, notify.ReasonScoreHigh},
	{notify.Later, notify.ReasonScoreDigest},
	{notify.Now, notify.ReasonScoreDigest},
	{notify.Never, notify.ReasonScoreLow},
	{notify.Now, notify.ReasonDeferLimit},
	{notify.Never, notify.ReasonDeferLimit},
	{notify.Never, notify.ReasonExpiresFirst},
	{notify.Now, notify.ReasonDigested},
}
