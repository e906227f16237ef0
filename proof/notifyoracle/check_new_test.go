package notifyoracle

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// playNew has an ALERT that escalates twice, an UPDATE, and one that waits for a limit and is
// cancelled; another event is cancelled before it comes.
func playNew(t *testing.T) *Run {
	t.Helper()
	s, alert, d := escalated(t, "read")
	s.set.Policy.Limits = []notify.Limit{{Name: "one", Most: 1, Within: day, Of: notify.Selector{Types: []notify.EventType{notify.Update}}}}
	p := &played{set: s.set, user: s.user}
	p.Sets = map[string]*Set{"1": s.set}
	accepted := func(e Event) Event {
		p.Events = append(p.Events, e.Notification)
		return e
	}
	p.keep(&d, accepted(alert))
	first, second := accepted(s.event(notify.Update, s.noon+1)), accepted(s.event(notify.Update, s.noon+2))
	for _, e := range []Event{first, second} {
		d := s.decide(e)
		p.keep(&d, e)
	}
	cancelled := s.user.Withdraw(s.set, second, Turn{Number: 1}, notify.ReasonCancelled, uuid.Nil, s.noon+3)
	p.keep(&cancelled, second)
	unknown := s.event(notify.System, s.noon+4)
	cancelled = s.user.Withdraw(s.set, unknown, Turn{}, notify.ReasonCancelled, uuid.Nil, s.noon+4)
	p.keep(&cancelled, unknown)
	for e := alert; len(d.FollowUps) > 0; {
		e = s.child(e, &d, 0)
		d = s.user.Decide(s.set, e, Turn{}, d.FollowUps[0].At)
		p.keep(&d, e)
		p.End = d.DecidedAt
	}
	p.States = map[string]*notify.State{"u": storedOf(p.user)}
	return &p.Run
}

func TestANewRunThatKeepsTheLaws(t *testing.T) {
	run := playNew(t)
	for _, v := range append(Check(run), Replay(run)...) {
		t.Error(v)
	}
	if len(run.Records) != 7 || len(run.Sent) != 4 {
		t.Errorf("%d records, %d dispatches", len(run.Records), len(run.Sent))
	}
}

// TestChecksNoticeANewViolation breaks one law at a time.
func TestChecksNoticeANewViolation(t *testing.T) {
	is := func(reason string) func(r *notify.Record) bool {
		return func(r *notify.Record) bool { return r.Reasons[0] == reason }
	}
	for _, c := range []struct {
		name, law string
		plant     func(run *Run)
	}{
		{"one over a limit", LawLimits, func(run *Run) {
			r := record(t, run, is(notify.ReasonLimit))
			r.Outcome, r.Reasons, r.Channels = notify.Now, []string{notify.ReasonScoreHigh}, channels(notify.Push)
		}},
		{"a dispatch of what is cancelled", LawWithdraw, func(run *Run) {
			r := record(t, run, is(notify.ReasonCancelled))
			run.Sent = append(run.Sent, Sent{ID: r.EventID, Events: []uuid.UUID{r.EventID}, At: r.DecidedAt + 1})
		}},
		{"a step on the channel of its root", LawChannels, func(run *Run) {
			record(t, run, is(notify.ReasonEscalated)).Channels = channels(notify.Push)
		}},
		{"a step before its time", LawTurns, func(run *Run) { record(t, run, is("R")).Facts.FollowUps[0].At++ }},
		{"a step sent twice", LawOneNow, func(run *Run) {
			r := *record(t, run, is(notify.ReasonEscalated))
			r.Seq, r.Turn, r.DecidedAt = 1000, 1, run.End
			run.Records = append(run.Records, r)
		}},
		{"a step that no record tells of", LawKnown, func(run *Run) { record(t, run, is("R")).Facts.FollowUps = nil }},
		{"a step without a record", LawEnds, func(run *Run) { run.Records = run.Records[:len(run.Records)-1] }},
		{"a NOW that is snoozed", LawQuiet, func(run *Run) {
			record(t, run, is(notify.ReasonScoreHigh)).Facts.Preferences.SnoozedUntil = run.End
		}},
		{"a step too late", LawOracle, func(run *Run) { record(t, run, is("R")).Facts.FollowUps[0].At-- }},
		{"a step that was read", LawOracle, func(run *Run) { record(t, run, is(notify.ReasonEscalated)).Facts.Reported = notify.WasOpened }},
		{"a slot on another channel", LawOracle, func(run *Run) {
			record(t, run, is(notify.ReasonLimit)).Facts.Sent.Channels = notify.SetOf(channels(notify.SMS))
		}},
		{"a send that limits do not know", LawState, func(run *Run) { run.States["u"].Sent = run.States["u"].Sent[1:] }},
	} {
		run := playNew(t)
		c.plant(run)
		faults := Check(run)
		if c.law == LawOracle {
			faults = Replay(run)
		}
		if !slices.ContainsFunc(faults, func(v Violation) bool { return v.Law == c.law }) {
			t.Errorf("%s is not noticed: %v", c.name, faults)
		}
	}
}
