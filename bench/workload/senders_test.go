package workload

import (
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/sink/senders/message"
)

// What a digest's items tell counts, too: the message itself expires with the last of them,
// and one that has none has it never expire.
func TestHandedOverBeforeAnItemExpired(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	text := func(late time.Duration) *string {
		s := now.Add(-late).UTC().Format("2006-01-02T15:04:05.000Z")
		return &s
	}
	digest := func(all ...*string) *message.Message {
		m := &message.Message{Digest: &message.Digest{}}
		for _, s := range all {
			m.Digest.Items = append(m.Digest.Items, message.Item{ExpiresAt: s})
		}
		return m
	}
	for name, c := range map[string]struct {
		m    *message.Message
		back time.Duration // from now
	}{
		"no expiry":                    {&message.Message{}, 0},
		"expired on the way":           {&message.Message{ExpiresAt: text(time.Second)}, time.Second + time.Millisecond},
		"expired long before":          {&message.Message{ExpiresAt: text(time.Hour)}, 0},
		"not yet expired":              {&message.Message{ExpiresAt: text(-time.Hour)}, 0},
		"an item expired on the way":   {digest(nil, text(476*time.Millisecond), text(-time.Hour)), 477 * time.Millisecond},
		"the first of two that did so": {digest(text(time.Second), text(2*time.Second)), 2*time.Second + time.Millisecond},
	} {
		if got := atOf(c.m, now); got != engine.MillisOf(now.Add(-c.back)) {
			t.Errorf("%s: %d ms before now", name, engine.MillisOf(now)-got)
		}
	}
}
