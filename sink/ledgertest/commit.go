package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// fullRecord sets every field that depends on nothing else.
func fullRecord(d *notify.Decided) {
	r := &d.Record
	r.Reasons = []string{notify.ReasonCap5M, "VIP", notify.ReasonQuietHours}
	r.RuleID, r.Spent = id(1), []uuid.UUID{id(2), id(3)}
	r.DigestKey, r.Slot, r.DuplicateOf = "UPDATE|größer", start+7, id(4)
	r.Scored, r.Score = true, 0.1+0.2
	r.Facts = notify.Facts{
		Preferences: preferences(),
		Counts:      [3]int{1, 2, 3}, Caps: notify.Caps{4, 5, 6}, Frees: [3]engine.Millis{7, 8, 9}, CooldownEnd: 10,
		QuietEnd: 11, RuleUntil: 12, RuleName: "Grüße <b>", Strategy: notify.DigestWindow, Measure: "words",
		Parts: notify.Parts{Base: .1, Hint: .2, Taste: .3, Recency: .4, Calm: .5},
		Taste: notify.Score{Cosine: -1. / 3, Known: true}, TasteUsed: true, Forced: true, Horizon: 13, Tzdata: "2026b",
	}
}

func testRoundTrip(t *testing.T, s Store) {
	later := Decide(Event("a", notify.Promo, start), 1, 0, notify.Later, start)
	fullRecord(&later)
	now := Decide(Event("a", notify.Security, start), 2, 0, notify.Now, start)
	now.Record.DigestID = id(5)
	never := Decide(Event("a", notify.Digest, start), 3, 0, notify.Never, start+1)
	c := change("a", 0, later, now, never)
	c.State.LastSend[notify.Security] = start
	c.State.Marks = []notify.Mark{{EventID: now.Event.ID, Type: notify.Security, At: start, Print: now.Record.Print}}
	c.State.LastDigest = id(6)
	slot := notify.Reservation{EventID: later.Event.ID, Sent: notify.Sent{Type: notify.Promo, At: start + 60_000}, Made: start}
	c.State.Reserved = []notify.Reservation{slot}
	want := *c.State
	must(t, commit(s, c))
	c.State.Sends[0], c.State.Marks[0].At, c.State.Reserved[0].At = 1, 1, 1 // the caller goes on folding

	got := standing(t, s, "a", idsOf(now, later, never)...)
	equal(t, "version", got.Version, 3)
	want.Reserved = []notify.Reservation{slot}
	want.Sends, want.Marks = []engine.Millis{start, start, start + 1}, []notify.Mark{{EventID: now.Event.ID, Type: notify.Security, At: start, Print: now.Record.Print}}
	equal(t, "state", *got.State, want)
	equal(t, "keys", got.Known, []notify.Known{key(now, false), key(later, false), key(never, false)})
	equal(t, "records", records(t, s, ledger.Filter{User: "a", Oldest: true}), []notify.Decided{later, now, never})
	equal(t, "deferrals", got.Deferred, []notify.Due{{
		Event: later.Event, Turn: notify.Turn{Number: 1, Spent: later.Record.Spent},
		DueAt: start + 60_000, DigestKey: "UPDATE|größer", Slot: start + 7,
	}})

	got.State.Sends[0] = 1 // a fold into what was loaded changes nothing that is stored
	equal(t, "state", *standing(t, s, "a").State, want)
}

// What is stored of a decision, and what an erasure leaves of it, says which stage made it.
func testStagesOfRecords(t *testing.T, s Store) {
	var decided []notify.Decided
	add := func(stage int, outcome notify.Outcome, rule byte, reasons ...string) {
		d := Decide(Event("a", notify.Update, start), int64(len(decided)+1), 0, outcome, start)
		d.Record.Reasons, d.Record.RuleID[0] = reasons, rule
		if got := d.Record.Stage(); got != stage {
			t.Fatalf("%v is of stage %d, want %d", reasons, got, stage)
		}
		decided = append(decided, d)
	}
	add(2, notify.Never, 0, notify.ReasonNoChannel)
	add(6, notify.Never, 1, notify.ReasonNoChannel)
	add(6, notify.Never, 1, "PAUSED")
	add(7, notify.Now, 1, "FORCED")
	add(7, notify.Later, 1, "BY_DAY", notify.ReasonCap5M)
	add(8, notify.Later, 1, notify.ReasonCap1H, notify.ReasonQuietHours)
	add(13, notify.Never, 1, notify.ReasonExpiresFirst, "BY_DAY")
	must(t, commit(s, change("a", 0, decided...)))
	compare := func(what string) {
		t.Helper()
		for _, d := range decided {
			stored := records(t, s, ledger.Filter{Event: d.Record.EventID})
			if len(stored) != 1 || stored[0].Record.Stage() != d.Record.Stage() {
				t.Errorf("%s: %v is %+v, want a record of stage %d", what, d.Record.Reasons, stored, d.Record.Stage())
			}
		}
	}
	compare("stored")
	must(t, s.Forget(ctx, "a", start+1))
	compare("erased")
}

func testLoadIsAligned(t *testing.T, s Store) {
	a := decide(t, s, "a", 0, notify.Now, start)
	b := decide(t, s, "b", 0, notify.Later, start)
	got, err := s.Load(ctx, []notify.Ask{
		{User: "new", Events: []uuid.UUID{id(start), b.Event.ID}},
		{User: "b", Events: []uuid.UUID{b.Event.ID, id(start), a.Event.ID}, Deferrals: true},
		{User: "a"},
		{User: "b"},
	})
	must(t, err)
	equal(t, "a new user", got[0], notify.Standing{Known: []notify.Known{{}, key(b, false)}})
	equal(t, "keys", got[1].Known, []notify.Known{key(b, false), {}, key(a, false)})
	equal(t, "deferrals", dueIDs(got[1].Deferred), idsOf(b))
	if got[2].Version != 1 || got[2].State.DecidedAt != start || len(got[2].Known) != 0 {
		t.Errorf("a user without events is %+v", got[2])
	}
	if got[3].Version != 1 || got[3].Deferred != nil {
		t.Errorf("a user whose deferrals were not asked for is %+v", got[3])
	}
	if got, err := s.Load(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("nothing was asked for: %v, %v", got, err)
	}
	if answers := s.Commit(ctx, nil, nil); len(answers) != 0 {
		t.Errorf("nothing was written: %v", answers)
	}
}

func testBigState(t *testing.T, s Store) {
	c := change("a", 0, Decide(Event("a", notify.Update, start), 1, 0, notify.Now, start))
	c.State.Sends = nil
	for i := range notify.MaxSends {
		c.State.Sends = append(c.State.Sends, start+engine.Millis(i))
	}
	for i := range notify.MaxMarks {
		c.State.Marks = append(c.State.Marks, notify.Mark{EventID: id(start), Type: notify.Promo, At: start + engine.Millis(i), Print: c.Decided[0].Record.Print})
	}
	c.State.DecidedAt = start + notify.MaxSends
	want := *c.State
	must(t, commit(s, c))
	equal(t, "state", *standing(t, s, "a").State, want)
}

func testUserIDs(t *testing.T, s Store) {
	users := []string{
		"1", "01", "a'\"\\<>&%_", "ä", "a\u0308", "Ä", "\U0001F514", " ", "null", strings.Repeat("字", notify.MaxUserRunes),
		strings.Repeat("\U0001F514", notify.MaxUserRunes),
	}
	var asks []notify.Ask
	var events []notify.Decided
	for i, user := range users {
		events = append(events, decide(t, s, user, 0, notify.Later, start+engine.Millis(i)))
		asks = append(asks, notify.Ask{User: user, Deferrals: true})
	}
	all, err := s.Load(ctx, asks)
	must(t, err)
	for i, user := range users {
		if all[i].Version != 1 || all[i].State.DecidedAt != start+engine.Millis(i) {
			t.Errorf("user %q is %+v", user, all[i])
		}
		equal(t, "deferrals of "+user, dueIDs(all[i].Deferred), idsOf(events[i]))
		equal(t, "records of "+user, records(t, s, ledger.Filter{User: user}), events[i:i+1])
	}
	if n, err := s.Users(ctx); err != nil || n != int64(len(users)) {
		t.Errorf("%d users, %v, want %d", n, err, len(users))
	}
}

// Each round, many writers have decided upon the same version.
func testOneWriterWins(t *testing.T, s Store) {
	const writers = 8
	for round := range int64(4) {
		answers := make([]error, writers)
		changes := make([]notify.Change, writers)
		var group sync.WaitGroup
		for i := range writers {
			changes[i] = change("a", round, Decide(Event("a", notify.Update, start), round+1, 0, notify.Later, start+engine.Millis(i)))
			group.Go(func() { answers[i] = commit(s, changes[i]) })
		}
		group.Wait()
		won := -1
		for i, err := range answers {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Errorf("round %d: two writers won", round)
			default:
				conflict(t, err)
			}
		}
		if won < 0 {
			t.Fatalf("round %d: no writer won: %v", round, answers)
		}
		got := standing(t, s, "a")
		if got.Version != round+1 || got.State.DecidedAt != changes[won].State.DecidedAt || len(got.Deferred) != int(round)+1 {
			t.Errorf("round %d: writer %d won and the user is %+v", round, won, got)
		}
	}
	if all := records(t, s, ledger.Filter{User: "a"}); len(all) != 4 {
		t.Errorf("%d records, want one per round", len(all))
	}
}

func testPartialWins(t *testing.T, s Store) {
	a, b := decide(t, s, "a", 0, notify.Now, start), decide(t, s, "b", 0, notify.Now, start)
	again := a.Event
	fine := func(user string, version int64) notify.Decided {
		return Decide(Event(user, notify.Update, start+1), version+1, 0, notify.Now, start+1)
	}
	wins := []notify.Decided{fine("new", 0), fine("b", 1)}
	answers := s.Commit(ctx, []notify.Change{
		change("new", 0, wins[0]),
		change("late", 3, fine("late", 3)),
		change("a", 1, fine("a", 1), Decide(again, 3, 0, notify.Now, start+1)),
		change("b", 1, wins[1]),
		change("c", 0, Decide(Event("c", notify.Update, start), 1, 0, notify.Now, start), Decide(event(b.Event.ID, "c", notify.Update, start), 2, 0, notify.Now, start)),
	}, Dispatched(idsOf(b)...))
	if len(answers) != 5 || answers[0] != nil || answers[3] != nil {
		t.Fatalf("the answers are %v", answers)
	}
	conflict(t, answers[1])
	equal(t, "known", known(t, answers[2]), []notify.Known{key(a, false)})
	anotherUser(t, answers[4])
	for user, want := range map[string]int64{"new": 1, "late": 0, "a": 1, "b": 2, "c": 0} {
		if got := standing(t, s, user); got.Version != want || (got.State != nil) != (want > 0) {
			t.Errorf("user %s has version %d and state %v, want version %d", user, got.Version, got.State, want)
		}
	}
	equal(t, "records", records(t, s, ledger.Filter{Oldest: true, From: start + 1}), wins)
	if !standing(t, s, "b", b.Event.ID).Known[0].Dispatched {
		t.Error("the marks beside were not set")
	}
}

func testEventTwiceInOneChange(t *testing.T, s Store) {
	e := Event("a", notify.Update, start)
	twice := change("a", 0, Decide(e, 1, 0, notify.Now, start), Decide(e, 2, 0, notify.Now, start))
	if err := commit(s, twice); engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != ledger.ReasonTurnTwice {
		t.Errorf("a turn that is twice in a change: %v", err)
	}
	equal(t, "what is stored", standing(t, s, "a", e.ID), notify.Standing{Known: []notify.Known{{}}})

	turns := []notify.Decided{
		Decide(e, 1, 0, notify.Later, start), Decide(e, 2, 1, notify.Later, start+1), Decide(e, 3, 2, notify.Now, start+2),
	}
	must(t, commit(s, change("a", 0, turns...)))
	got := standing(t, s, "a", e.ID)
	equal(t, "version", got.Version, 3)
	equal(t, "key", got.Known[0], key(turns[2], false))
	equal(t, "records", records(t, s, ledger.Filter{Event: e.ID, Oldest: true}), turns)
}

func testEventOfTwoUsersInOneCall(t *testing.T, s Store) {
	e := Event("a", notify.Update, start)
	other := event(e.ID, "b", notify.Update, start)
	first := Decide(e, 1, 0, notify.Now, start)
	answers := s.Commit(ctx, []notify.Change{
		change("a", 0, first), change("b", 0, Decide(other, 1, 0, notify.Now, start)),
	}, nil)
	must(t, answers[0])
	anotherUser(t, answers[1])
	equal(t, "key", standing(t, s, "b", e.ID), notify.Standing{Known: []notify.Known{key(first, false)}})
}

func testEventOfAnotherUser(t *testing.T, s Store) {
	first := decide(t, s, "a", 0, notify.Later, start)
	other := event(first.Event.ID, "b", notify.Update, start)
	for turn := range 3 {
		anotherUser(t, commit(s, change("b", 0, Decide(other, 1, turn, notify.Never, start))))
	}
	// A change moves no deferral of another user.
	must(t, commit(s, notify.Change{User: "b", Postponed: []notify.Postponement{{EventID: first.Event.ID, DueAt: 1}}}))
	equal(t, "next due", nextDue(t, s), start+60_000)
	equal(t, "key", standing(t, s, "a", first.Event.ID).Known[0], key(first, false))
}

func testEventTwiceOverTime(t *testing.T, s Store) {
	first := decide(t, s, "a", 0, notify.Later, start)
	fine := Decide(Event("a", notify.Update, start), 2, 0, notify.Now, start)
	// A writer with a version of the past is told of the known event, not of the conflict.
	for _, version := range []int64{0, 1, 7} {
		again := Decide(first.Event, version+1, 0, notify.Now, start+1)
		equal(t, "known", known(t, commit(s, change("a", version, again, fine))), []notify.Known{key(first, false)})
	}
	second := Decide(first.Event, 2, 1, notify.Now, start+2)
	must(t, commit(s, change("a", 1, second)))
	must(t, commit(s, change("a", 2, Decide(Event("a", notify.Promo, start), 3, 0, notify.Never, start+2)), first.Event.ID))
	for turn := range 2 {
		again := Decide(first.Event, 4, turn, notify.Never, start+3)
		equal(t, "known", known(t, commit(s, change("a", 3, again))), []notify.Known{key(second, true)})
	}
	if all := records(t, s, ledger.Filter{User: "a"}); len(all) != 3 {
		t.Errorf("%d records, want 3", len(all))
	}
	equal(t, "version", standing(t, s, "a").Version, 3)
}

// Find tells what became of a commit whose answer was lost.
func testFind(t *testing.T, s Store) {
	e := Event("a", notify.Update, start)
	first, second := Decide(e, 1, 0, notify.Later, start), Decide(e, 2, 1, notify.Now, start+1)
	lost := Decide(Event("a", notify.Update, start), 1, 0, notify.Now, start)
	ids := []uuid.UUID{lost.Record.DecisionID, second.Record.DecisionID, first.Record.DecisionID}
	find := func(want ...notify.Known) {
		t.Helper()
		got, err := s.Find(ctx, ids)
		must(t, err)
		equal(t, "found", got, want)
	}
	find(notify.Known{}, notify.Known{}, notify.Known{})
	must(t, commit(s, change("a", 0, first)))
	conflict(t, commit(s, change("a", 0, lost)))
	find(notify.Known{}, notify.Known{}, key(first, false))
	must(t, commit(s, change("a", 1, second), e.ID))
	find(notify.Known{}, key(second, true), key(first, false))
	if got, err := s.Find(ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("nothing was asked for: %v, %v", got, err)
	}
}

// testCancelledCommits ends the contexts of commits at random moments: the answer,
// or Find where the outcome is unknown, says what is stored.
func testCancelledCommits(t *testing.T, s Store) {
	var version int64
	for round := range 30 {
		d := Decide(Event("a", notify.Update, start), version+1, 0, notify.Later, start)
		cancellable, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(2*time.Millisecond))), cancel)
		err := s.Commit(cancellable, []notify.Change{change("a", version, d)}, nil)[0]
		timer.Stop()
		cancel()
		// A write orders the read behind the commit, which may be under way still.
		must(t, s.Release(ctx, nil))
		found, findErr := s.Find(ctx, []uuid.UUID{d.Record.DecisionID})
		must(t, findErr)
		written := found[0].Outcome != 0
		if written != (err == nil) && !errors.Is(err, engine.ErrUnknown) {
			t.Fatalf("round %d: the answer is %v, written is %t", round, err, written)
		}
		if written {
			version++
		}
		if got := standing(t, s, "a"); got.Version != version || len(got.Deferred) != int(version) {
			t.Fatalf("round %d: version %d with %d deferrals, want %d", round, got.Version, len(got.Deferred), version)
		}
	}
}

// testParallel has many goroutines decide for few users, each with what it loaded.
func testParallel(t *testing.T, s Store) {
	const writers, rounds, users = 6, 8, 3
	var group sync.WaitGroup
	wins := make([]int64, writers)
	for w := range writers {
		group.Go(func() {
			for round := range rounds {
				user := fmt.Sprint((w + round) % users)
				e := Event(user, notify.Update, start)
				for try := 0; ; try++ {
					got := standing(t, s, user, e.ID)
					err := commit(s, change(user, got.Version, Decide(e, got.Version+1, 0, notify.Later, start)))
					if err == nil {
						break
					}
					if !errors.Is(err, engine.ErrConflict) || try == 1000 {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				}
				wins[w]++
				if due, err := s.Claim(ctx, start+60_000, start+90_000, 3); err != nil {
					t.Errorf("Claim: %v, %v", due, err)
				}
			}
		})
	}
	group.Wait()
	var sum, versions int64
	for w := range wins {
		sum += wins[w]
	}
	for user := range users {
		got := standing(t, s, fmt.Sprint(user))
		versions += got.Version
		for i, d := range records(t, s, ledger.Filter{User: fmt.Sprint(user), Oldest: true}) {
			if d.Record.Seq != int64(i+1) {
				t.Errorf("user %d: record %d has seq %d", user, i, d.Record.Seq)
			}
		}
	}
	if sum != versions || sum != writers*rounds {
		t.Errorf("%d commits won, the versions say %d, want %d", sum, versions, writers*rounds)
	}
}
