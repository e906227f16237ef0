package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// delivered and failed are reports of a decision.
func delivered(d *notify.Decided, at engine.Millis, by notify.Channel) notify.Report {
	return notify.Report{Decision: d.Record.DecisionID, Status: notify.Delivered, Channel: by, At: at}
}

func failed(d *notify.Decided, at engine.Millis, why string) notify.Report {
	return notify.Report{Decision: d.Record.DecisionID, Status: notify.DeliveryFailed, At: at, Error: why}
}

// ofEvent names the event or the digest instead of the decision.
func ofEvent(r notify.Report, id uuid.UUID) notify.Report {
	r.Decision, r.Event = uuid.Nil, id
	return r
}

// apply applies reports that must all be taken.
func apply(t failer, l Ledger, reports ...notify.Report) {
	t.Helper()
	answers := l.Apply(ctx, reports)
	equal(t, "number of answers", len(answers), len(reports))
	for i := range answers {
		must(t, answers[i])
	}
}

// deliveries reads the deliveries of decisions.
func deliveries(t failer, l Ledger, decided ...notify.Decided) (all []notify.Delivery) {
	t.Helper()
	for i := range decided {
		d, err := l.Decision(ctx, decided[i].Record.DecisionID)
		must(t, err)
		all = append(all, d.Delivery)
	}
	return all
}

// refused expects a permanent error of a report.
func refused(t failer, err error, reason string) {
	t.Helper()
	if engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != reason {
		t.Fatalf("the answer is %v, want the permanent error %s", err, reason)
	}
}

func testReports(t *testing.T, s Store) {
	first, second := decide(t, s, "a", 0, notify.Now, start), decide(t, s, "a", 1, notify.Now, start+1)
	later, never := decide(t, s, "b", 0, notify.Later, start), decide(t, s, "b", 1, notify.Never, start)
	equal(t, "at first", deliveries(t, s, first, second, later, never), []notify.Delivery{
		{Status: notify.Pending}, {Status: notify.Pending}, {}, {Status: notify.Suppressed},
	})
	// One call: each report has its own answer.
	answers := s.Apply(ctx, []notify.Report{
		delivered(&first, start+9, notify.SMS),
		delivered(&later, start+9, notify.SMS), ofEvent(delivered(&later, start+9, notify.SMS), later.Event.ID),
		delivered(&never, start+9, notify.SMS), ofEvent(failed(&never, start+9, ""), never.Event.ID),
		ofEvent(delivered(&first, start+9, notify.Push), id(start)),
		{Decision: id(start), Status: notify.Delivered, Channel: notify.Push, At: start},
		ofEvent(failed(&second, start+8, "größer \U0001F514 \"x\""), second.Event.ID),
		{Decision: uuid.MustParse("ffffffff-ffff-4fff-bfff-ffffffffffff"), Status: notify.Delivered, Channel: notify.Push, At: start},
	})
	equal(t, "number of answers", len(answers), 9)
	for i, reason := range map[int]string{
		1: notify.ReasonNotNow, 2: notify.ReasonNotNow, 3: notify.ReasonNotNow, 4: notify.ReasonNotNow,
		5: notify.ReasonUnknownDecision, 6: notify.ReasonUnknownDecision, 8: notify.ReasonUnknownDecision,
	} {
		refused(t, answers[i], reason)
	}
	must(t, answers[0])
	must(t, answers[7])
	want := []notify.Delivery{
		{Status: notify.Delivered, Channel: notify.SMS, At: start + 9},
		{Status: notify.DeliveryFailed, At: start + 8, Error: "größer \U0001F514 \"x\""},
		{},
		{Status: notify.Suppressed},
	}
	equal(t, "reported", deliveries(t, s, first, second, later, never), want)
	first.Delivery, second.Delivery = want[0], want[1]
	equal(t, "records", records(t, s, ledger.Filter{User: "a", Oldest: true}), []notify.Decided{first, second})
	// Nothing goes back.
	apply(t, s, failed(&first, start+99, "late"), delivered(&first, start+99, notify.Push))
	equal(t, "afterwards", deliveries(t, s, first, second, later, never), want)
	equal(t, "answers to nothing", len(s.Apply(ctx, nil)), 0)
}

// A report is neither proof of a dispatch nor does it need one: the sender may be faster
// than the mark.
func testReportBeforeMark(t *testing.T, s Store) {
	d := decide(t, s, "a", 0, notify.Now, start)
	apply(t, s, ofEvent(delivered(&d, start+9, notify.Push), d.Event.ID))
	equal(t, "key", standing(t, s, "a", d.Event.ID).Known[0], key(d, false))
	equal(t, "undispatched", len(undispatched(t, s, start+1, 9)), 1)
	equal(t, "answers", s.Commit(ctx, nil, Dispatched(d.Event.ID)), []error{})
	equal(t, "key", standing(t, s, "a", d.Event.ID).Known[0], key(d, true))
	equal(t, "delivery", deliveries(t, s, d), []notify.Delivery{{Status: notify.Delivered, Channel: notify.Push, At: start + 9}})
}

// A deferred event has a record of each turn: a report by event is of the NOW.
func testReportOfALaterTurn(t *testing.T, s Store) {
	first := decide(t, s, "a", 0, notify.Later, start)
	second := Decide(first.Event, 2, 1, notify.Now, start+minute)
	must(t, commit(s, change("a", 1, second)))
	by := delivered(&second, start+2*minute, notify.Email)
	apply(t, s, ofEvent(by, first.Event.ID))
	equal(t, "deliveries", deliveries(t, s, first, second), []notify.Delivery{{}, by.Delivery()})
	answers := s.Apply(ctx, []notify.Report{failed(&first, start, ""), ofEvent(by, first.Event.ID)})
	refused(t, answers[0], notify.ReasonNotNow)
	must(t, answers[1])
}

// A report of a digest is of all its items.
func testReportOfADigest(t *testing.T, s Store) {
	digest := id(1)
	var items []notify.Decided
	for i := range int64(3) {
		d := Decide(Event("a", notify.Promo, start), i+1, 0, notify.Now, start)
		d.Record.DigestID = digest
		items = append(items, d)
	}
	items[1].Record.DigestID = id(2)
	must(t, commit(s, change("a", 0, items...)))
	apply(t, s, ofEvent(failed(&items[0], start+9, "full"), digest), delivered(&items[2], start+10, notify.Push))
	equal(t, "deliveries", deliveries(t, s, items...), []notify.Delivery{
		{Status: notify.DeliveryFailed, At: start + 9, Error: "full"},
		{Status: notify.Pending},
		{Status: notify.Delivered, Channel: notify.Push, At: start + 10},
	})
}

// The mark of an event that expired before its dispatch is the weakest report.
func testExpiredMarks(t *testing.T, s Store) {
	var all []notify.Decided
	for i := range int64(5) {
		all = append(all, decide(t, s, "a", i, notify.Now, start))
	}
	expired := notify.Delivery{Status: notify.DeliveryFailed, Error: notify.ErrorExpired}
	later := Decide(Event("a", notify.Update, start), 6, 0, notify.Later, start)
	must(t, commit(s, change("a", 5, later)))
	before, after := delivered(&all[1], start+1, notify.Push), failed(&all[2], start+1, "gone")
	apply(t, s, before)
	equal(t, "answers", s.Commit(ctx, nil, Dispatched(all[3].Event.ID)), []error{})
	for range 2 {
		var marks []notify.DispatchMark
		for _, event := range append(idsOf(all[:4]...), later.Event.ID, id(start)) {
			marks = append(marks, notify.DispatchMark{Event: event, Expired: true})
		}
		equal(t, "answers", s.Commit(ctx, nil, marks), []error{})
		apply(t, s, after)
		equal(t, "deliveries", deliveries(t, s, append(all, later)...), []notify.Delivery{
			expired, before.Delivery(), after.Delivery(), {Status: notify.Pending}, {Status: notify.Pending}, {},
		})
	}
	equal(t, "undispatched", idsOf(recordsOf(undispatched(t, s, start+1, 9))...), idsOf(all[4]))
	equal(t, "deferrals", dueIDs(standing(t, s, "a").Deferred), idsOf(later))
}

// recordsOf returns the decisions of dispatches.
func recordsOf(all []notify.Dispatch) (decided []notify.Decided) {
	for i := range all {
		for j := range all[i].Records {
			decided = append(decided, notify.Decided{Record: all[i].Records[j], Event: all[i].Events[j]})
		}
	}
	return decided
}

// What a sender says of an erased user's delivery is not kept.
func testReportOfAnErasedUser(t *testing.T, s Store) {
	first, second := decide(t, s, "a", 0, notify.Now, start), decide(t, s, "a", 1, notify.Now, start)
	apply(t, s, failed(&first, start+1, "no mailbox a@b.example"))
	must(t, s.Forget(ctx, "a", start+2))
	apply(t, s, failed(&second, start+3, "no mailbox a@b.example"))
	equal(t, "deliveries", deliveries(t, s, first, second), []notify.Delivery{
		{Status: notify.DeliveryFailed, At: start + 1}, {Status: notify.DeliveryFailed, At: start + 3},
	})
	apply(t, s, ofEvent(delivered(&second, start+4, notify.Push), second.Event.ID))
	equal(t, "deliveries", deliveries(t, s, second), []notify.Delivery{{Status: notify.Delivered, Channel: notify.Push, At: start + 4}})
}

func testUnreported(t *testing.T, s Store) {
	count := func(before engine.Millis, want int64) {
		t.Helper()
		n, err := s.Unreported(ctx, before)
		must(t, err)
		equal(t, "unreported", n, want)
	}
	count(start, 0)
	var all []notify.Decided
	for i := range 4 {
		all = append(all, decide(t, s, fmt.Sprint(i), 0, notify.Now, start+engine.Millis(i)))
		decide(t, s, fmt.Sprint(i), 1, notify.Later, start)
		decide(t, s, fmt.Sprint(i), 2, notify.Never, start)
	}
	count(start, 0)
	count(start+3, 3)
	count(start+4, 4)
	apply(t, s, delivered(&all[0], start, notify.Push), failed(&all[1], start, ""))
	count(start+4, 2)
	must(t, s.Forget(ctx, "2", start))
	count(start+4, 1)
}

// reportsOf draws reports, most of them of the decisions, with many ties.
func reportsOf(t *rapid.T) []func(d []notify.Decided) notify.Report {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) func([]notify.Decided) notify.Report {
		r := notify.Report{
			Status:  rapid.SampledFrom([]notify.Status{notify.Delivered, notify.DeliveryFailed}).Draw(t, "status"),
			Channel: notify.Channel(rapid.IntRange(0, len(notify.Channels)).Draw(t, "channel")), //nolint:gosec // small
			At:      start + engine.Millis(rapid.IntRange(-1, 1).Draw(t, "at")),
			Error:   rapid.SampledFrom([]string{"", "a", "B", "ä", "\U0001F514", "\uff5e"}).Draw(t, "error"),
		}
		of, name := rapid.IntRange(0, 2).Draw(t, "of"), rapid.IntRange(0, 2).Draw(t, "name")
		return func(d []notify.Decided) notify.Report {
			switch r := r; name {
			case 0:
				r.Decision = d[of].Record.DecisionID
				return r
			case 1:
				return ofEvent(r, d[of].Event.ID)
			default:
				return ofEvent(r, d[0].Record.DigestID)
			}
		}
	}), 1, 8).Draw(t, "reports")
}

// testReportsInAnyOrder applies the same reports to two users' decisions that are alike,
// to one in an order of its own, some again, in groups: the rows are the same.
func testReportsInAnyOrder(t *testing.T, s Store) {
	history := 0
	rapid.Check(t, func(t *rapid.T) {
		history++
		both, changes := [2][]notify.Decided{}, []notify.Change(nil)
		for i := range both {
			user, digest := fmt.Sprint(history, " ", i), id(1)
			for turn := range int64(3) {
				d := Decide(Event(user, notify.Promo, start), turn+1, 0, notify.Now, start)
				if turn < 2 {
					d.Record.DigestID = digest
				}
				both[i] = append(both[i], d)
			}
			changes = append(changes, change(user, 0, both[i]...))
		}
		for _, err := range s.Commit(ctx, changes, nil) {
			must(t, err)
		}
		reports := reportsOf(t)
		var inOrder, shuffled []notify.Report
		for _, of := range reports {
			inOrder = append(inOrder, of(both[0]))
		}
		apply(t, s, inOrder...)
		order := rapid.Permutation(append(reports, reports[:rapid.IntRange(0, len(reports)).Draw(t, "again")]...)).Draw(t, "order")
		for _, of := range order {
			shuffled = append(shuffled, of(both[1]))
		}
		for group := range slices.Chunk(shuffled, rapid.IntRange((len(shuffled)+2)/3, len(shuffled)).Draw(t, "group")) {
			apply(t, s, group...)
		}
		want := records(t, s, ledger.Filter{User: both[0][0].Record.UserID})
		for i, d := range records(t, s, ledger.Filter{User: both[1][0].Record.UserID}) {
			equal(t, fmt.Sprint("delivery ", i), d.Delivery, want[i].Delivery)
		}
	})
}

// testReportsInParallel applies overlapping reports in many orders at once, beside marks
// and erasures: each is taken, and the rows are those of the reports alone.
func testReportsInParallel(t *testing.T, s Store) {
	const users, turns, writers = 4, 6, 6
	var all []notify.Decided
	for user := range users {
		var decided []notify.Decided
		for turn := range int64(turns) {
			d := Decide(Event(fmt.Sprint(user), notify.Promo, start), turn+1, 0, notify.Now, start)
			random := uuid.New() // ids of one instant are in no order
			d.Record.DecisionID = notify.NewDecisionID(start, [10]byte(random[:10]))
			d.Record.DigestID = uuid.NewSHA1(uuid.Nil, fmt.Append(nil, user, turn/3))
			decided = append(decided, d)
		}
		must(t, commit(s, change(fmt.Sprint(user), 0, decided...)))
		all = append(all, decided...)
	}
	var reports []notify.Report
	var marks []notify.DispatchMark
	for i := range all {
		at := start + engine.Millis(i)
		reports = append(reports, failed(&all[i], at, "busy"), ofEvent(failed(&all[i], at+1, "full"), all[i].Event.ID),
			ofEvent(delivered(&all[i], at+9, notify.Push), all[i].Record.DigestID))
		marks = append(marks, notify.DispatchMark{Event: all[i].Event.ID, Expired: i%2 == 0})
	}
	var group sync.WaitGroup
	work := func(what string, run func() []error) {
		group.Go(func() {
			for _, err := range run() {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	for range writers {
		work("reports", func() (errs []error) {
			mine := slices.Clone(reports)
			rand.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for part := range slices.Chunk(mine, 7) {
				errs = append(errs, s.Apply(ctx, part)...)
			}
			return errs
		})
		work("marks", func() []error { return s.Commit(ctx, nil, marks) })
	}
	work("erasures", func() (errs []error) {
		for user := range users {
			errs = append(errs, s.Forget(ctx, fmt.Sprint(user), start))
		}
		return errs
	})
	group.Wait()
	for i, d := range deliveries(t, s, all...) {
		first := i / 3 * 3 // of the digest
		equal(t, fmt.Sprint("delivery ", i), d, notify.Delivery{Status: notify.Delivered, Channel: notify.Push, At: start + engine.Millis(first) + 9})
	}
}
