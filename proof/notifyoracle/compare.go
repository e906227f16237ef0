package notifyoracle

import (
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/similar"
)

// Compare names the fields in which a record is not what is expected; none where it is.
func Compare(want *Decision, got *notify.Record) (differences []string) {
	d := &differences
	differ(d, "outcome", want.Outcome == got.Outcome, want.Outcome, got.Outcome)
	differ(d, "defer_until", want.DeferUntil == got.DeferUntil, want.DeferUntil, got.DeferUntil)
	differ(d, "digest_key", want.DigestKey == got.DigestKey, want.DigestKey, got.DigestKey)
	differ(d, "slot", want.Slot == got.Slot, want.Slot, got.Slot)
	if want.Outcome == notify.Postponed {
		return differences // nothing else of it is used
	}
	differ(d, "reasons", slices.Equal(want.Reasons, got.Reasons), want.Reasons, got.Reasons)
	differ(d, "event_id", want.EventID == got.EventID, want.EventID, got.EventID)
	differ(d, "event_type", want.Type == got.Type, want.Type, got.Type)
	differ(d, "turn", want.Turn == got.Turn, want.Turn, got.Turn)
	differ(d, "decided_at", want.DecidedAt == got.DecidedAt, want.DecidedAt, got.DecidedAt)
	differ(d, "rule_version", want.Version == got.RuleVersion, want.Version, got.RuleVersion)
	differ(d, "rule", want.RuleID == got.RuleID, want.RuleID, got.RuleID)
	differ(d, "forced", want.Forced == got.Facts.Forced, want.Forced, got.Facts.Forced)
	differ(d, "spent", slices.Equal(want.Spent, got.Spent), want.Spent, got.Spent)
	differ(d, "digest_id", want.DigestID == got.DigestID, want.DigestID, got.DigestID)
	differ(d, "duplicate_of", want.DuplicateOf == got.DuplicateOf, want.DuplicateOf, got.DuplicateOf)
	differ(d, "measure", want.Measure == got.Facts.Measure, want.Measure, got.Facts.Measure)
	differ(d, "channels", slices.Equal(want.Channels, got.Channels), want.Channels, got.Channels)
	differ(d, "scored", want.Scored == got.Scored, want.Scored, got.Scored)
	differ(d, "score", math.Abs(want.Score-got.Score) <= 1e-9, want.Score, got.Score)
	differ(d, "horizon", want.Horizon == got.Facts.Horizon, want.Horizon, got.Facts.Horizon)
	differ(d, "reserved", want.Reserved == got.Facts.Reserved, want.Reserved, got.Facts.Reserved)
	differ(d, "moved", slices.Equal(want.Moved, got.Facts.Moved), want.Moved, got.Facts.Moved)
	differ(d, "follow-ups", slices.EqualFunc(want.FollowUps, got.Facts.FollowUps, sameFollowUp), want.FollowUps, got.Facts.FollowUps)
	if want.Reserved {
		differ(d, "channels of the slot", notify.SetOf(want.Send.Channels) == got.Facts.Sent.Channels, notify.SetOf(want.Send.Channels), got.Facts.Sent.Channels)
	}
	if !got.Scored && got.Outcome == notify.Never {
		return differences // an early stage may have read neither counts nor caps
	}
	differ(d, "counts", want.Counts == got.Facts.Counts, want.Counts, got.Facts.Counts)
	differ(d, "caps", want.Caps == got.Facts.Caps, want.Caps, got.Facts.Caps)
	if z := got.Facts.Preferences.Zone; z == nil || z.Name() != want.Zone {
		differ(d, "zone", false, want.Zone, fmt.Sprint(got.Facts.Preferences.Zone))
	}
	differ(d, "topic", want.Topic == got.Facts.Topic, want.Topic, got.Facts.Topic)
	if want.Outcome == notify.Now && want.DigestID == uuid.Nil {
		differ(d, "held", slices.Equal(want.Held, got.Facts.Held), want.Held, got.Facts.Held)
	}
	if want.Shown != nil {
		g := Shown{got.Facts.Digest.Key, got.Facts.Digest.Show, got.Facts.Digest.More}
		differ(d, "shown", *want.Shown == g, *want.Shown, g)
	}
	if want.DigestID == uuid.Nil {
		differ(d, "waiting", want.Waiting == got.Facts.Waiting, want.Waiting, got.Facts.Waiting)
	}
	if want.Outcome != notify.Later {
		return differences
	}
	differ(d, "limits", slices.EqualFunc(want.Limits, got.Facts.Limits, sameLimit), fmt.Sprint(want.Limits), fmt.Sprint(got.Facts.Limits))
	for reason, until := range want.Until {
		if reason == notify.ReasonLimit || !slices.Contains(want.Reasons, reason) {
			continue
		}
		differ(d, "the end of "+reason, until == endOf(reason, &got.Facts), until, endOf(reason, &got.Facts))
	}
	return differences
}

func sameFollowUp(w, g notify.FollowUp) bool {
	return w.EventID == g.EventID && w.Step == g.Step && slices.Equal(w.Channels, g.Channels) && w.At == g.At && w.Unless == g.Unless &&
		w.Reason == g.Reason && w.Digest == g.Digest && slices.EqualFunc(w.Then, g.Then, func(w, g notify.Escalation) bool {
		return w.After == g.After && slices.Equal(w.Channels, g.Channels) && w.Unless == g.Unless
	})
}

func sameLimit(w LimitSeen, g notify.LimitFact) bool {
	return w == LimitSeen{g.Name, g.Count, g.Frees}
}

// endOf returns when a reason of a LATER ends by the facts of its record.
func endOf(reason string, f *notify.Facts) engine.Millis {
	switch reason {
	case notify.ReasonCap5M:
		return f.Frees[0]
	case notify.ReasonCap1H:
		return f.Frees[1]
	case notify.ReasonCap24H:
		return f.Frees[2]
	case notify.ReasonCooldown:
		return f.CooldownEnd
	case notify.ReasonQuietHours:
		return f.QuietEnd
	case notify.ReasonSnoozed:
		return f.SnoozedTo
	default:
		return f.RuleUntil
	}
}

// CompareState names what is not as the user's decisions have left it.
func (u *User) CompareState(got *notify.State) (differences []string) {
	want := u.State()
	d := &differences
	differ(d, "state: decided_at", want.DecidedAt == got.DecidedAt, want.DecidedAt, got.DecidedAt)
	differ(d, "state: erased", u.Erased == got.Erased, u.Erased, got.Erased)
	differ(d, "state: sends", slices.Equal(want.Sends, got.Sends), want.Sends, got.Sends)
	differ(d, "state: last_digest", want.LastDigest == got.LastDigest, want.LastDigest, got.LastDigest)
	for _, kind := range notify.EventTypes {
		differ(d, "state: last send", want.LastSend[kind] == got.LastSend[kind], want.LastSend[kind], got.LastSend[kind])
	}
	same := slices.EqualFunc(want.Marks, got.Marks, func(w Mark, g notify.Mark) bool {
		return w.EventID == g.EventID && w.Type == g.Type && w.DecidedAt == g.At && printOf(w) == g.Print
	})
	kept := slices.EqualFunc(want.Slots, got.Reserved, func(w Slot, g notify.Reservation) bool {
		return w.Event == g.EventID && w.Made == g.Made && sameSend(w.Send, g.Sent)
	})
	sent := slices.EqualFunc(want.Sent, got.Sent, sameSend)
	differ(d, "state: sent", sent, fmt.Sprint(want.Sent), fmt.Sprint(got.Sent))
	differ(d, "state: reserved", kept, fmt.Sprint(want.Slots), fmt.Sprint(got.Reserved))
	if !same {
		differ(d, "state: marks", false, idsOf(want.Marks, func(m Mark) uuid.UUID { return m.EventID }),
			idsOf(got.Marks, func(m notify.Mark) uuid.UUID { return m.EventID }))
	}
	return differences
}

// sameSend compares what is stored of a send. Of keys a hash is stored.
func sameSend(w Send, g notify.Sent) bool {
	keys := 0
	for _, key := range g.Keys {
		if key != 0 {
			keys++
		}
	}
	return w.At == g.At && w.Type == g.Type && notify.SourceHash(w.Source) == g.Source && notify.SetOf(w.Channels) == g.Channels &&
		len(w.Keys) == keys && w.Item == g.Item && w.Follow == g.Follow
}

// printOf returns what is stored of a mark's texts.
func printOf(m Mark) similar.Print {
	if m.Old {
		return m.Print.Exact()
	}
	return m.Print
}

// differ appends what differs under a name.
func differ[T any](differences *[]string, name string, equal bool, want, got T) {
	if !equal {
		*differences = append(*differences, fmt.Sprintf("%s: want %v, got %v", name, want, got))
	}
}

func idsOf[T any](marks []T, id func(T) uuid.UUID) (ids []string) {
	for _, m := range marks {
		ids = append(ids, id(m).String()[:8])
	}
	return ids
}

// DecisionOf returns the decision that a record stores.
func DecisionOf(r *notify.Record) Decision {
	return Decision{
		EventID: r.EventID, Type: r.Type, Print: r.Print, Turn: r.Turn, Version: r.RuleVersion,
		DecidedAt: r.DecidedAt, Horizon: r.Facts.Horizon,
		Outcome: r.Outcome, Reasons: r.Reasons, RuleID: r.RuleID, Forced: r.Facts.Forced,
		DeferUntil: r.DeferUntil, Spent: r.Spent, DigestKey: r.DigestKey, Slot: r.Slot, DigestID: r.DigestID,
		DuplicateOf: r.DuplicateOf, Measure: r.Facts.Measure, Channels: r.Channels,
		Scored: r.Scored, Score: r.Score, Counts: r.Facts.Counts, Caps: r.Facts.Caps,
		Reserved: r.Facts.Reserved, Moved: r.Facts.Moved, Send: sendOfRecord(r), Topic: r.Facts.Topic, Held: r.Facts.Held,
		Reported: r.Facts.Reported, FollowUps: r.Facts.FollowUps,
	}
}

// sendOfRecord returns what a record says of its send. Of keys it has hashes, which have no
// names: they are counted, and not compared.
func sendOfRecord(r *notify.Record) Send {
	s := Send{
		At: r.DecidedAt, Type: r.Type, Source: r.Source, Channels: r.Channels, Keys: map[string]string{},
		Follow: r.Facts.Root != uuid.Nil,
	}
	for i, key := range r.Facts.Sent.Keys {
		if key != 0 {
			s.Keys[fmt.Sprint(i)] = fmt.Sprint(key)
		}
	}
	for _, c := range notify.Channels {
		if r.Outcome == notify.Later && r.Facts.Sent.Channels.Has(c) {
			s.Channels = append(s.Channels, c)
		}
	}
	return s
}
