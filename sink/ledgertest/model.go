package ledgertest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

// long is set in `make test-long`: what tests show by how often, they show at length.
var long = os.Getenv("KEYFOLD_SOAK") != ""

// An eighth of the histories is enough where not all are asked for.
func init() {
	if !long {
		_ = flag.Set("rapid.checks", "12") // which package rapid defines
	}
}

// testModel runs random histories on the ledger and on the memory ledger, which must
// answer alike. The histories share one ledger: each has users of its own, which are
// erased at its end.
func testModel(t *testing.T, s Store) {
	model := memory.New()
	history := 0
	rapid.Check(t, func(t *rapid.T) {
		history++
		m := &both{store: s, model: model, now: start + engine.Millis(history)*1000*minute}
		for i := range 4 {
			m.users = append(m.users, fmt.Sprintf("%d of %d", i, history))
		}
		t.Repeat(map[string]func(*rapid.T){
			"":            m.sometimes,
			"commit":      m.commit,
			"mark":        m.mark,
			"report":      m.report,
			"claim":       m.claim,
			"release":     m.release,
			"postpone":    m.postpone,
			"preferences": m.preferences,
			"forget":      m.forget,
		})
		for _, user := range m.users {
			must(t, errors.Join(s.Forget(ctx, user, m.now), model.Forget(ctx, user, m.now)))
		}
		m.compare(t)
	})
}

// both is a ledger beside its model.
type both struct {
	store, model Ledger
	users        []string
	events       []*notify.Notification
	decided      []uuid.UUID
	now          engine.Millis
	steps        int
}

func (m *both) user(t *rapid.T) string { return rapid.SampledFrom(m.users).Draw(t, "user") }

// event returns an event that came before, or a new one.
func (m *both) event(t *rapid.T, user string) *notify.Notification {
	if i := rapid.IntRange(-3, len(m.events)-1).Draw(t, "event"); i >= 0 {
		e := m.events[i]
		if e.UserID == user || rapid.IntRange(0, 9).Draw(t, "stolen") > 0 {
			return e // of another user: it is left out
		}
		return event(e.ID, user, e.Type, m.now)
	}
	e := Event(user, rapid.SampledFrom(notify.EventTypes).Draw(t, "type"), m.now)
	m.events = append(m.events, e)
	return e
}

func (m *both) ids(t *rapid.T) (ids []uuid.UUID) {
	for range rapid.IntRange(0, 3).Draw(t, "ids") {
		if len(m.events) > 0 {
			ids = append(ids, m.events[rapid.IntRange(0, len(m.events)-1).Draw(t, "id")].ID)
		}
	}
	return ids
}

func (m *both) marks(t *rapid.T) []notify.DispatchMark {
	marks := Dispatched(m.ids(t)...)
	for i := range marks {
		marks[i].Expired = rapid.Bool().Draw(t, "expired")
	}
	return marks
}

// commit writes changes of several users, some with a version of the past.
func (m *both) commit(t *rapid.T) {
	m.now += engine.Millis(rapid.IntRange(0, int(minute)).Draw(t, "pause"))
	var changes []notify.Change
	for _, user := range m.users {
		if rapid.Bool().Draw(t, "takes part") {
			changes = append(changes, m.change(t, user))
		}
	}
	marked := m.marks(t)
	got, want := m.store.Commit(ctx, changes, marked), m.model.Commit(ctx, changes, marked)
	equal(t, "answers", len(got), len(want))
	for i := range want {
		sameAnswer(t, got[i], want[i])
	}
}

func (m *both) change(t *rapid.T, user string) notify.Change {
	at := standing(t, m.model, user)
	if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
		at.Version--
	}
	c := notify.Change{User: user, Version: at.Version, State: at.State}
	if c.State == nil {
		c.State = &notify.State{}
	}
	for range rapid.IntRange(0, 4).Draw(t, "turns") {
		e := m.event(t, user)
		if e.UserID != user {
			continue
		}
		d := Decide(e, c.Version+int64(len(c.Decided))+1, rapid.IntRange(0, notify.MaxTurn).Draw(t, "turn"),
			notify.Outcome(rapid.IntRange(1, 3).Draw(t, "outcome")), m.now)
		if d.Record.Outcome != notify.Never && rapid.Bool().Draw(t, "digest") {
			slot := start + engine.Millis(rapid.IntRange(1, 3).Draw(t, "slot"))
			d.Record.DigestKey, d.Record.Slot = "PROMO", slot
			if d.Record.Outcome == notify.Now {
				d.Record.DigestKey, d.Record.Slot = "", 0
				d.Record.DigestID = uuid.NewSHA1(uuid.Nil, fmt.Append(nil, user, slot))
			}
		}
		if c.State.Erased {
			d.Record.Outcome, d.Record.DeferUntil, d.Record.Channels = notify.Never, 0, nil
			d.Record.DigestID, d.Record.DigestKey, d.Record.Slot = uuid.Nil, "", 0
		}
		c.Decided = append(c.Decided, d)
		m.decided = append(m.decided, d.Record.DecisionID)
		c.State.DecidedAt = m.now
	}
	return c
}

func (m *both) mark(t *rapid.T) {
	marked := m.marks(t)
	m.store.Commit(ctx, nil, marked)
	m.model.Commit(ctx, nil, marked)
}

// report applies reports of decisions, events and digests, known and unknown.
func (m *both) report(t *rapid.T) {
	var reports []notify.Report
	for range rapid.IntRange(1, 4).Draw(t, "reports") {
		r := notify.Report{Status: notify.Delivered, Channel: notify.Push, At: m.now + engine.Millis(rapid.IntRange(0, 2).Draw(t, "at"))}
		if rapid.Bool().Draw(t, "failed") {
			r.Status, r.Error = notify.DeliveryFailed, rapid.SampledFrom([]string{"", "busy"}).Draw(t, "error")
		}
		switch at := rapid.IntRange(0, 2).Draw(t, "by"); {
		case at == 0 && len(m.decided) > 0:
			r.Decision = rapid.SampledFrom(m.decided).Draw(t, "decision")
		case at == 1 && len(m.events) > 0:
			r.Event = rapid.SampledFrom(m.events).Draw(t, "event").ID
		default:
			r.Event = uuid.NewSHA1(uuid.Nil, fmt.Append(nil, m.user(t), start+engine.Millis(rapid.IntRange(1, 4).Draw(t, "slot"))))
		}
		reports = append(reports, r)
	}
	got, want := m.store.Apply(ctx, reports), m.model.Apply(ctx, reports)
	equal(t, "answers", len(got), len(want))
	for i := range want {
		sameAnswer(t, got[i], want[i])
	}
}

func (m *both) claim(t *rapid.T) {
	m.now += engine.Millis(rapid.IntRange(0, int(2*minute)).Draw(t, "pause"))
	n := rapid.IntRange(0, 4).Draw(t, "n")
	got, err := m.store.Claim(ctx, m.now, m.now+minute, n)
	must(t, err)
	want, err := m.model.Claim(ctx, m.now, m.now+minute, n)
	must(t, err)
	equal(t, "claimed", got, want)
}

func (m *both) release(t *rapid.T) {
	events := m.ids(t)
	must(t, errors.Join(m.store.Release(ctx, events), m.model.Release(ctx, events)))
}

func (m *both) postpone(t *rapid.T) {
	c := notify.Change{User: m.user(t)}
	c.Version = standing(t, m.model, c.User).Version
	for _, event := range m.ids(t) {
		c.Postponed = append(c.Postponed, notify.Postponement{EventID: event, DueAt: m.now + minute})
	}
	sameAnswer(t, commit(m.store, c), commit(m.model, c))
}

func (m *both) preferences(t *rapid.T) {
	user, own := m.user(t), preferences()
	own.Caps[0] = rapid.IntRange(0, notify.MaxCap).Draw(t, "cap")
	version := rapid.Int64Range(ledger.AnyVersion, 3).Draw(t, "version")
	got, gotErr := m.store.UpdatePreferences(ctx, user, version, own)
	want, wantErr := m.model.UpdatePreferences(ctx, user, version, own)
	sameAnswer(t, gotErr, wantErr)
	equal(t, "version", got, want)
}

func (m *both) forget(t *rapid.T) {
	if user := m.user(t); rapid.IntRange(0, 4).Draw(t, "really") == 0 {
		must(t, errors.Join(m.store.Forget(ctx, user, m.now), m.model.Forget(ctx, user, m.now)))
	}
}

// sometimes compares after every third step.
func (m *both) sometimes(t *rapid.T) {
	if m.steps++; m.steps%3 == 0 {
		m.compare(t)
	}
}

// compare reads all that both have of the history's users.
func (m *both) compare(t *rapid.T) {
	asks := make([]notify.Ask, len(m.users))
	for i, user := range m.users {
		asks[i] = notify.Ask{User: user, Deferrals: true}
		for _, e := range m.events {
			asks[i].Events = append(asks[i].Events, e.ID)
		}
	}
	got, err := m.store.Load(ctx, asks)
	must(t, err)
	want, err := m.model.Load(ctx, asks)
	must(t, err)
	equal(t, "users", got, want)
	equal(t, "next due", nextDue(t, m.store), nextDue(t, m.model))
	f := ledger.Filter{User: m.users[m.steps%len(m.users)], Oldest: m.steps%2 == 0}
	equal(t, "records of "+f.User, records(t, m.store, f), records(t, m.model, f))
	found, err := m.store.Find(ctx, m.decided)
	must(t, err)
	inModel, err := m.model.Find(ctx, m.decided)
	must(t, err)
	equal(t, "found", found, inModel)
	n := 1 + len(m.events)%5
	equal(t, "undispatched", undispatched(t, m.store, m.now, n), undispatched(t, m.model, m.now, n))
}

// sameAnswer compares two answers of one question.
func sameAnswer(t *rapid.T, got, want error) {
	t.Helper()
	var gotKnown, wantKnown *notify.KnownError
	switch {
	case errors.As(want, &wantKnown):
		equal(t, "known", known(t, got), wantKnown.Known)
	case errors.As(got, &gotKnown) || (got == nil) != (want == nil),
		errors.Is(got, engine.ErrConflict) != errors.Is(want, engine.ErrConflict),
		engine.ReasonOf(got) != engine.ReasonOf(want):
		t.Fatalf("the answer is %v, the model's %v", got, want)
	}
}
