package notifyoracle

import (
	"cmp"
	"slices"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// played is a run that the oracle itself has made.
type played struct {
	Run
	user *User
	set  *Set
	seq  int64
}

func (p *played) keep(d *Decision, e Event) {
	p.seq++
	p.Records = append(p.Records, recordOf(p, d, e))
	if d.Outcome != notify.Now {
		return
	}
	if n := len(p.Sent); d.DigestID != uuid.Nil && n > 0 && p.Sent[n-1].ID == d.DigestID {
		p.Sent[n-1].Events = append(p.Sent[n-1].Events, e.ID)
		return
	}
	id := e.ID
	if d.DigestID != uuid.Nil {
		id = d.DigestID
	}
	p.Sent = append(p.Sent, Sent{ID: id, Events: []uuid.UUID{e.ID}, At: d.DecidedAt})
}

func recordOf(p *played, d *Decision, e Event) notify.Record {
	facts := notify.Facts{
		Preferences: p.user.Preferences, Counts: d.Counts, Caps: d.Caps, Forced: d.Forced, Measure: d.Measure, Horizon: d.Horizon,
		Frees:   [3]engine.Millis{d.Until[notify.ReasonCap5M], d.Until[notify.ReasonCap1H], d.Until[notify.ReasonCap24H]},
		Waiting: d.Waiting, Reserved: d.Reserved, Moved: d.Moved,
		Sent: storedSend(d.Send), Topic: d.Topic, Held: d.Held, FollowUps: d.FollowUps, Reported: d.Reported,
		CooldownEnd: d.Until[notify.ReasonCooldown], QuietEnd: d.Until[notify.ReasonQuietHours],
	}
	facts.Preferences.Zone = berlin
	for _, l := range d.Limits {
		facts.Limits = append(facts.Limits, notify.LimitFact{Name: l.Name, Count: l.Count, Frees: l.Frees})
	}
	if e.Follows != nil {
		facts.Root, facts.Step = e.Follows.Root, e.Follows.Step
	}
	return notify.Record{
		Seq: p.seq, EventID: d.EventID, UserID: e.UserID, Type: d.Type, Print: d.Print,
		Outcome: d.Outcome, Reasons: d.Reasons, RuleID: d.RuleID, RuleVersion: d.Version, Turn: d.Turn,
		DecidedAt: d.DecidedAt, DeferUntil: d.DeferUntil, Spent: d.Spent, DigestKey: d.DigestKey, Slot: d.Slot,
		DigestID: d.DigestID, DuplicateOf: d.DuplicateOf, Source: e.Source, Channels: d.Channels, Scored: d.Scored, Score: d.Score,
		Facts: facts,
	}
}

var berlin, _ = quiet.LoadZone("Europe/Berlin")

// play decides events and their deferrals to the end: a burst over the caps, a SECURITY
// in the night, an event that has expired, two that a digest takes.
func play(t *testing.T) *Run {
	t.Helper()
	set := testSet(t, `{"rule_id":"00000000-0000-4000-8000-000000000001","priority":1,"enabled":true,
		"conditions":{"field":"event_type","operator":"eq","value":"PROMO"},
		"action":{"outcome":"LATER","defer_strategy":"digest_window","reason_code":"PROMO_DIGEST"}}`)
	p := &played{set: set, user: New().User("u")}
	p.Sets = map[string]*Set{"1": set}
	p.user.Preferences.Quiet = quiet.Hours{{From: 1320, To: 420}}
	noon, night := at("2026-06-01T10:00:00.000Z"), at("2026-06-01T22:00:00.000Z")
	type due struct {
		Item
		at     engine.Millis
		digest bool
	}
	var queue []due
	add := func(kind notify.EventType, at engine.Millis) *Event {
		e := testEvent(len(queue), kind, at)
		queue = append(queue, due{Item{Event: e}, at, false})
		return &e
	}
	for i := range 5 {
		add(notify.Update, noon+engine.Millis(i))
	}
	add(notify.Alert, noon+20).ExpiresAt = noon + 20
	add(notify.Promo, noon+30)
	add(notify.Promo, noon+31)
	add(notify.Security, night)
	add(notify.Update, night+1)
	for _, d := range queue {
		p.Events = append(p.Events, d.Event.Notification)
	}
	for len(queue) > 0 {
		slices.SortStableFunc(queue, func(a, b due) int { return cmp.Compare(a.at, b.at) })
		next := queue[0]
		queue = queue[1:]
		var d Decision
		if next.digest {
			d = p.user.DigestItem(set, next.Item, notify.DigestID("u", "PROMO", next.at, next.Event.ID), next.at)
		} else {
			d = p.user.Decide(set, next.Event, Turn{Number: next.Turn, Spent: next.Spent}, next.at)
		}
		p.keep(&d, next.Event)
		if d.Outcome == notify.Later {
			queue = append(queue, due{Item{Event: next.Event, Turn: d.Turn + 1, Spent: d.Spent, Key: d.DigestKey}, d.DeferUntil, d.DigestKey != ""})
		}
		p.End = next.at
	}
	p.States = map[string]*notify.State{"u": storedOf(p.user)}
	return &p.Run
}

// storedOf returns the user's state as it would be stored.
func storedOf(u *User) *notify.State {
	s := u.State()
	stored := &notify.State{DecidedAt: s.DecidedAt, Sends: s.Sends, LastDigest: s.LastDigest}
	copy(stored.LastSend[:], s.LastSend[:])
	for _, o := range s.Slots {
		stored.Reserved = append(stored.Reserved, notify.Reservation{EventID: o.Event, Sent: storedSend(o.Send), Made: o.Made})
	}
	for _, o := range s.Sent {
		stored.Sent = append(stored.Sent, storedSend(o))
	}
	for _, m := range s.Marks {
		stored.Marks = append(stored.Marks, notify.Mark{EventID: m.EventID, Type: m.Type, At: m.DecidedAt, Print: printOf(m)})
	}
	return stored
}

// storedSend has a made-up hash of each key.
func storedSend(s Send) notify.Sent {
	stored := notify.Sent{At: s.At, Type: s.Type, Source: notify.SourceHash(s.Source), Channels: notify.SetOf(s.Channels), Item: s.Item, Follow: s.Follow}
	for i := range len(s.Keys) {
		stored.Keys[i] = 1
	}
	return stored
}

// record returns the run's first record that fits.
func record(t *testing.T, run *Run, fits func(r *notify.Record) bool) *notify.Record {
	t.Helper()
	for i := range run.Records {
		if fits(&run.Records[i]) {
			return &run.Records[i]
		}
	}
	t.Fatal("no such record")
	return nil
}

func TestARunThatKeepsTheLaws(t *testing.T) {
	run := play(t)
	outcomes := map[string]int{}
	for _, r := range run.Records {
		outcomes[r.Outcome.String()+" "+r.Reasons[0]]++
	}
	for _, want := range []string{"NOW SCORE_HIGH", "LATER FATIGUE_CAP_5M", "NEVER EXPIRED", "LATER PROMO_DIGEST", "NOW DIGESTED", "LATER QUIET_HOURS"} {
		if outcomes[want] == 0 {
			t.Errorf("no record is %s: %v", want, outcomes)
		}
	}
	for _, v := range append(Check(run), Replay(run)...) {
		t.Error(v)
	}
}

// TestChecksNoticeAPlantedViolation breaks one law at a time.
func TestChecksNoticeAPlantedViolation(t *testing.T) {
	is := func(o notify.Outcome, reason string) func(r *notify.Record) bool {
		return func(r *notify.Record) bool { return r.Outcome == o && r.Reasons[0] == reason }
	}
	for _, c := range []struct {
		name, law string
		plant     func(run *Run)
	}{
		{"a fourth in an hour", LawCaps, func(run *Run) {
			r := record(t, run, is(notify.Later, notify.ReasonCap5M))
			r.Outcome, r.Reasons = notify.Now, []string{notify.ReasonScoreHigh}
		}},
		{"an UPDATE at midnight", LawQuiet, func(run *Run) {
			r := record(t, run, is(notify.Later, notify.ReasonQuietHours))
			r.Outcome, r.Reasons, r.Channels = notify.Now, []string{notify.ReasonScoreHigh}, []notify.Channel{notify.Push}
		}},
		{"a dispatch at its expiry", LawExpiry, func(run *Run) { run.Events[0].ExpiresAt = run.Sent[0].At }},
		{"an event sent twice", LawOneNow, func(run *Run) {
			r := *record(t, run, is(notify.Now, notify.ReasonScoreHigh))
			r.Seq, r.Turn, r.DecidedAt = 1000, 1, run.End
			run.Records = append(run.Records, r)
		}},
		{"a turn that is missing", LawTurns, func(run *Run) {
			r := record(t, run, is(notify.Later, notify.ReasonCap5M))
			run.Records = slices.DeleteFunc(run.Records, func(x notify.Record) bool { return x.Seq == r.Seq })
		}},
		{"a turn twice", LawTurns, func(run *Run) {
			r := *record(t, run, is(notify.Never, notify.ReasonExpired))
			r.Seq, r.DecidedAt = 1000, run.End
			run.Records = append(run.Records, r)
		}},
		{"a turn before its time", LawTurns, func(run *Run) { record(t, run, is(notify.Later, notify.ReasonCap5M)).DeferUntil += 60_000 }},
		{"an event without a record", LawEnds, func(run *Run) {
			run.Records = slices.DeleteFunc(run.Records, is2(is(notify.Never, notify.ReasonExpired)))
		}},
		{"an event that waits at the end", LawEnds, func(run *Run) {
			r := record(t, run, is(notify.Later, notify.ReasonCap5M))
			run.Records = slices.DeleteFunc(run.Records, func(x notify.Record) bool { return x.EventID == r.EventID && x.Turn == 1 })
		}},
		{"a digest that is too large", LawDigest, func(run *Run) {
			record(t, run, is(notify.Now, notify.ReasonScoreHigh)).DigestID = record(t, run, is(notify.Now, notify.ReasonDigested)).DigestID
			for _, e := range run.Events {
				e.Body = append(e.Body, make([]byte, 70_000)...)
			}
		}},
		{"a NOW without a dispatch", LawDispatch, func(run *Run) { run.Sent = run.Sent[1:] }},
		{"a second id", LawDispatch, func(run *Run) {
			s := run.Sent[0]
			s.ID = uuid.NameSpaceDNS
			run.Sent = append(run.Sent, s)
		}},
		{"a dispatch of a NEVER", LawDispatch, func(run *Run) {
			id := record(t, run, is(notify.Never, notify.ReasonExpired)).EventID
			run.Sent = append(run.Sent, Sent{ID: id, Events: []uuid.UUID{id}})
		}},
		{"a dispatch of no event", LawKnown, func(run *Run) { run.Sent[0].Events = append(run.Sent[0].Events, uuid.NameSpaceURL) }},
		{"a record of no event", LawKnown, func(run *Run) { run.Records[0].EventID = uuid.NameSpaceURL }},
		{"a record of another user", LawKnown, func(run *Run) { run.Records[0].UserID = "v" }},
		{"a record of no set", LawKnown, func(run *Run) { run.Records[0].RuleVersion = "7" }},
		{"a send that the state lacks", LawState, func(run *Run) { run.States["u"].Sends = run.States["u"].Sends[1:] }},
		{"a mark that the state lacks", LawState, func(run *Run) { run.States["u"].Marks = run.States["u"].Marks[1:] }},
		{"a last send that is wrong", LawState, func(run *Run) { run.States["u"].LastSend[notify.Update]-- }},
		{"a user without a state", LawState, func(run *Run) { delete(run.States, "u") }},
		{"time runs backwards", LawState, func(run *Run) { run.Records[2].DecidedAt = run.Records[1].DecidedAt - 1 }},
		{"another outcome", LawOracle, func(run *Run) {
			r := record(t, run, is(notify.Now, notify.ReasonScoreHigh))
			r.Outcome, r.Reasons = notify.Never, []string{notify.ReasonScoreLow}
		}},
		{"another reason", LawOracle, func(run *Run) {
			record(t, run, is(notify.Later, notify.ReasonCap5M)).Reasons = []string{notify.ReasonCap5M}
		}},
		{"a deferral a millisecond late", LawOracle, func(run *Run) { record(t, run, is(notify.Later, notify.ReasonCap5M)).DeferUntil++ }},
		{"an item without a digest", LawOracle, func(run *Run) { record(t, run, is(notify.Now, notify.ReasonDigested)).DigestID = uuid.Nil }},
	} {
		run := play(t)
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

func is2(fits func(r *notify.Record) bool) func(notify.Record) bool {
	return func(r notify.Record) bool { return fits(&r) }
}

// TestARunThatGoesOn: what waits and what is on its way is no violation before the end.
func TestARunThatGoesOn(t *testing.T) {
	run := play(t)
	run.End, run.States = 0, nil
	run.Records = run.Records[:5]
	run.Sent = run.Sent[:1]
	for _, v := range Check(run) {
		t.Error(v)
	}
}
