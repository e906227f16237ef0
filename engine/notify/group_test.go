package notify

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A rule's digest_key of a long thread_id has a key that every ledger can index.
//
// Promise(notify-worker/group-keys): A digest's key has at most 256 bytes and is that of no other
// values.
func TestADigestsKeyIsBounded(t *testing.T) {
	keyOf := func(thread string) string {
		s := newScene()
		s.event.Metadata = Metadata{{Path: "thread_id", Value: Value{Kind: String, Text: thread}}}
		s.set.Rules = always(Action{Outcome: Later, Strategy: DigestWindow, Reason: "X", DigestKey: []string{"metadata.thread_id", "source"}})
		r := s.decide()
		if r.Outcome != Later {
			t.Fatalf("%s %v", r.Outcome, r.Reasons)
		}
		return r.DigestKey
	}
	long := strings.Repeat("x", 3000)
	one, other := keyOf(long+"1"), keyOf(long+"2")
	if len(one) > MaxGroupBytes || one == other {
		t.Errorf("%d bytes: %s and %s", len(one), one, other)
	}
	if a, b := keyOf("a|b"), keyOf("a"); a == b || b != "a|"+newScene().event.Source {
		t.Errorf("%s and %s", a, b)
	}
}

// Lists of as many values have one key only where they are equal.
//
// Promise(notify-worker/group-keys)
func TestGroupKeysDoNotCollide(t *testing.T) {
	if groupKey([]string{"a|b", "c"}) == groupKey([]string{"a", "b|c"}) {
		t.Error(`"a|b", "c" and "a", "b|c" have one key`)
	}
	part := rapid.StringOf(rapid.RuneFrom([]rune(`a|\#`)))
	lists := rapid.SliceOfN(part, 2, 2)
	rapid.Check(t, func(t *rapid.T) {
		a, b := lists.Draw(t, "a"), lists.Draw(t, "b")
		if same := a[0] == b[0] && a[1] == b[1]; same != (groupKey(a) == groupKey(b)) {
			t.Fatalf("%q and %q have the keys %q and %q", a, b, groupKey(a), groupKey(b))
		}
	})
}
