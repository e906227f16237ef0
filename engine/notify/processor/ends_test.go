package processor_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
)

// tight gives a fixture a cap of one notification in 5 minutes.
func tight(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, false)
	f.use(t, func(p *notify.Policy) {
		p.Caps, p.Limits = notify.Caps{1, 250, 250}, nil
		for i := range p.Types {
			p.Types[i].Cooldown = 0
		}
	})
	f.set.Rules = nil
	return f
}

// use has the fixture decide by the shipped set with another policy.
func (f *fixture) use(t *testing.T, change func(*notify.Policy)) {
	t.Helper()
	f.set = shippedSet(t)
	change(&f.set.Policy)
	config := processor.DefaultConfig()
	config.Conflicts, config.Failures, config.Pause, config.MaxPause = 1000, 1000, time.Microsecond, time.Millisecond
	f.Processor = f.again(t, config)
}

// with posts an event with more fields.
func with(t *testing.T, user, title string, fields map[string]any) *notify.Notification {
	t.Helper()
	var all map[string]any
	must.OK(t, json.Unmarshal(post(t, user, "MESSAGE", title).Body, &all))
	for name, value := range fields {
		all[name] = value
	}
	body, err := json.Marshal(all)
	must.OK(t, err)
	return parse(t, body)
}

func (f *fixture) decideEvents(t *testing.T, events ...*notify.Notification) (records []notify.Record) {
	t.Helper()
	var all []processor.Delivery
	for _, e := range events {
		all = append(all, processor.Delivery{Event: e})
	}
	for _, v := range f.decide(t.Context(), all...) {
		if v.Outcome != processor.Decided || v.Err != nil {
			t.Fatalf("%s: %v", v.Outcome, v.Err)
		}
		records = append(records, v.Records...)
	}
	return records
}

func (f *fixture) deferred(t *testing.T, user string) []notify.Due {
	t.Helper()
	all, err := f.ledger.Load(t.Context(), []notify.Ask{{User: user, Deferrals: true}})
	must.OK(t, err)
	return all[0].Deferred
}

func outcomes(records []notify.Record) (all []string) {
	for i := range records {
		all = append(all, records[i].Outcome.String()+" "+records[i].Reasons[0])
	}
	return all
}

// A replacement takes the place of the one that is due first, and all others end.
func TestAReplacementTakesThePlace(t *testing.T) {
	f := tight(t)
	first := f.decideEvents(t, post(t, "a", "MESSAGE", "one"))
	waits := f.decideEvents(t, with(t, "a", "two", map[string]any{"dedupe_key": "k"}))
	f.decideEvents(t, with(t, "a", "three", map[string]any{"dedupe_key": "k"}))
	f.decideEvents(t, with(t, "a", "other", map[string]any{"dedupe_key": "l"}))
	if first[0].Outcome != notify.Now || waits[0].Outcome != notify.Later || len(f.deferred(t, "a")) != 3 {
		t.Fatalf("%v %v", outcomes(first), outcomes(waits))
	}
	e := with(t, "a", "four", map[string]any{"dedupe_key": "k", "replaces": "dedupe_key"})
	got := f.decideEvents(t, e)
	if want := []string{"NEVER REPLACED", "NEVER REPLACED", "LATER REPLACES"}; !slices.Equal(outcomes(got), want) {
		t.Fatalf("%v, want %v", outcomes(got), want)
	}
	if last := &got[2]; last.DeferUntil != waits[0].DeferUntil || !last.Facts.Reserved || got[0].DuplicateOf != e.ID || got[0].Turn != 1 {
		t.Errorf("%+v", last)
	}
	if left := f.deferred(t, "a"); len(left) != 2 || left[0].Event.ID != e.ID {
		t.Errorf("%d wait", len(left))
	}
	if again := f.decide(t.Context(), processor.Delivery{Event: e, Redelivered: true}); again[0].Outcome != processor.Known {
		t.Errorf("again: %s", again[0].Outcome)
	}
	// By its id, and in the same flush as what it replaces.
	five := post(t, "b", "MESSAGE", "five")
	six := with(t, "b", "six", map[string]any{"replaces": five.ID.String()})
	f.decideEvents(t, post(t, "b", "MESSAGE", "zero"))
	both := f.decideEvents(t, five, six)
	if want := []string{"LATER FATIGUE_CAP_5M", "NEVER REPLACED", "LATER REPLACES"}; !slices.Equal(outcomes(both), want) {
		t.Errorf("%v, want %v", outcomes(both), want)
	}
	// Nothing waits: it is decided as any other.
	if got := f.decideEvents(t, with(t, "c", "seven", map[string]any{"replaces": uuid.NewString()})); got[0].Outcome != notify.Now {
		t.Errorf("%v", outcomes(got))
	}
}

// A cancellation ends what waits, once; what was sent stays sent, and what has not come is
// never sent.
func TestCancel(t *testing.T) {
	f := tight(t)
	sent := post(t, "a", "MESSAGE", "one")
	f.decideEvents(t, sent)
	waits := with(t, "a", "two", map[string]any{"dedupe_key": "k"})
	f.decideEvents(t, waits, with(t, "a", "three", map[string]any{"dedupe_key": "k"}))
	coming := post(t, "a", "MESSAGE", "not here yet")
	cancel := func(c notify.Cancellation) processor.Verdict {
		t.Helper()
		c.User = "a"
		return f.Cancel(t.Context(), []notify.Cancellation{c})[0]
	}
	if v := cancel(notify.Cancellation{Event: sent.ID}); v.Outcome != processor.Known || v.Key.Outcome != notify.Now || len(v.Records) > 0 {
		t.Errorf("sent: %+v", v)
	}
	if v := cancel(notify.Cancellation{Event: waits.ID}); len(v.Records) != 1 || v.Records[0].Reasons[0] != notify.ReasonCancelled || v.Records[0].Turn != 1 {
		t.Errorf("waits: %+v", v)
	}
	if v := cancel(notify.Cancellation{Event: waits.ID}); len(v.Records) > 0 || v.Key.Outcome != notify.Never {
		t.Errorf("again: %+v", v)
	}
	if v := cancel(notify.Cancellation{Key: "k", May: func(*notify.Notification) bool { return false }}); len(v.Records) > 0 {
		t.Errorf("not allowed: %+v", v)
	}
	if v := cancel(notify.Cancellation{Key: "k"}); len(v.Records) != 1 {
		t.Errorf("by key: %+v", v)
	}
	if v := cancel(notify.Cancellation{Key: "k"}); len(v.Records) > 0 || v.Err != nil {
		t.Errorf("by key again: %+v", v)
	}
	if v := cancel(notify.Cancellation{Event: coming.ID}); len(v.Records) != 1 || !v.Records[0].BeforeItCame() {
		t.Errorf("before it came: %+v", v)
	}
	if v := f.decide(t.Context(), processor.Delivery{Event: coming}); v[0].Outcome != processor.Known || v[0].Key.Outcome != notify.Never {
		t.Errorf("it came: %+v", v[0])
	}
	if left := f.deferred(t, "a"); len(left) > 0 || len(f.out.sent()) != 1 {
		t.Errorf("%d wait, %d were sent", len(left), len(f.out.sent()))
	}
}

// A chain goes on until a report ends it; each step has an id of its own, and a cancellation
// of the root ends what waits.
func TestAChainOfChannels(t *testing.T) {
	f := tight(t)
	chain := []notify.Escalation{
		{After: 60_000, Channels: []notify.Channel{notify.Email}, Unless: notify.UnlessRead},
		{After: 60_000, Channels: []notify.Channel{notify.SMS}, Unless: notify.UnlessRead},
	}
	f.set.Rules = always(notify.Action{Rule: uuid.New(), Name: "chain", Outcome: notify.Now, Reason: "GO", Bypass: notify.Forced, Escalate: chain})
	run := func(user string, between func(root, step uuid.UUID)) (sent []string) {
		e := post(t, user, "MESSAGE", "one")
		f.decideEvents(t, e)
		for step := 1; step <= 3; step++ {
			waiting := f.deferred(t, user)
			if len(waiting) == 0 {
				break
			}
			between(e.ID, waiting[0].Event.ID)
			if waiting = f.deferred(t, user); len(waiting) == 0 {
				break
			}
			v := f.decide(t.Context(), processor.Delivery{Due: waiting, At: waiting[0].DueAt})
			if v[0].Outcome != processor.Decided || len(v[0].Records) != 1 || v[0].Records[0].Facts.Step != step {
				t.Fatalf("step %d: %+v", step, v[0])
			}
			sent = append(sent, v[0].Records[0].Reasons[0])
		}
		return sent
	}
	report := func(id uuid.UUID, read notify.Reported) {
		for _, err := range f.ledger.Apply(t.Context(), []notify.Report{{Event: id, Status: notify.Delivered, Channel: notify.Push, At: engine.Now(), Read: read}}) {
			must.OK(t, err)
		}
	}
	esc, read := notify.ReasonEscalated, notify.ReasonRead
	if got := run("a", func(root, _ uuid.UUID) { report(root, 0) }); !slices.Equal(got, []string{esc, esc}) {
		t.Errorf("not read: %v", got)
	}
	if got := run("b", func(root, _ uuid.UUID) { report(root, notify.WasOpened) }); !slices.Equal(got, []string{read}) {
		t.Errorf("read: %v", got)
	}
	if got := run("c", func(root, step uuid.UUID) {
		if step == notify.FollowID(root, 2) {
			report(notify.FollowID(root, 1), notify.WasDismissed)
		}
	}); !slices.Equal(got, []string{esc, read}) {
		t.Errorf("the first step is read: %v", got)
	}
	if got := run("d", func(root, _ uuid.UUID) {
		f.Cancel(t.Context(), []notify.Cancellation{{User: "d", Event: root}})
	}); len(got) > 0 {
		t.Errorf("cancelled: %v", got)
	}
	for id, n := range f.out.sent() {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
}

// always is one rule that matches everything.
type always notify.Action

func (a always) Match(*notify.Input, []uuid.UUID) *notify.Action {
	action := notify.Action(a)
	return &action
}
