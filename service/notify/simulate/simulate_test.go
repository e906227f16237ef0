package simulate_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"keyfold/bench/workload"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"
	"keyfold/service/notify/ruleset"
	"keyfold/service/notify/simulate"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledger/postgres"
)

func TestMain(m *testing.M) { process.Main(m) }

const (
	start = engine.Millis(1_774_569_600_000) // 2026-03-27: the clocks of Berlin change two days later
	day   = engine.Millis(24 * 3600 * 1000)
	days  = 6
)

// store is a ledger that is written and simulated.
type store interface {
	notify.Ledger
	simulate.Store
	SetPreferences(ctx context.Context, user string, own notify.Preferences) error
}

type sent struct{}

func (sent) Send(_ context.Context, all []notify.Dispatch) []error { return make([]error, len(all)) }

// history is six days of a worker on a clock of its own, which looks for deferrals once a
// tick: most are decided late.
type history struct {
	store store
	set   *notify.Set
	users int
	now   engine.Millis
	p     *processor.Processor
}

func shipped(t *testing.T) *notify.Set {
	t.Helper()
	local, err := (&ruleset.Hours{Zone: "UTC", Morning: "08:00", Digests: "09:00,18:00"}).Local()
	must.OK(t, err)
	set, err := ruleset.Read("", local)
	must.OK(t, err)
	return set
}

// run makes so many events, of which perTick come in a tick.
func run(t *testing.T, l store, users, events, perTick int) *history {
	t.Helper()
	h := &history{store: l, set: shipped(t), users: users, now: start}
	var err error
	h.p, err = processor.New(processor.DefaultConfig(), processor.Ports{
		Ledger: l, Dispatcher: sent{}, Sets: ruleset.Fixed{Set: h.set}, Clock: func() engine.Millis { return h.now },
	})
	must.OK(t, err)
	h.preferences(t)
	traffic, err := workload.New(workload.Config{Seed: 18, Users: users, Skew: 1.2, Week: 60})
	must.OK(t, err)
	tick := days * day * engine.Millis(perTick) / engine.Millis(events)
	for made := 0; made < events; made += perTick {
		if h.now += tick; made >= events/2 && made < events/2+perTick {
			for i := range max(3, users/100) {
				must.OK(t, l.Forget(t.Context(), fmt.Sprint(users/4+i), h.now)) // not the busiest
			}
		}
		var all []processor.Delivery
		for range perTick {
			e, err := traffic.Next(h.now.Time())
			must.OK(t, err)
			all = append(all, processor.Delivery{Event: e})
		}
		h.apply(t, all)
		for h.claim(t) {
		}
	}
	return h
}

// preferences gives some users quiet hours, caps or mutes.
func (h *history) preferences(t *testing.T) {
	t.Helper()
	berlin, err := quiet.LoadZone("Europe/Berlin")
	must.OK(t, err)
	for i := range h.users {
		var own notify.Preferences
		switch i % 7 {
		case 0, 3:
			own = notify.Preferences{Zone: berlin, Quiet: quiet.Hours{{From: 1320, To: 420}}}
		case 1:
			own = notify.Preferences{Caps: notify.Caps{1, 2, 6}, Channels: []notify.Channel{notify.Push, notify.InApp}}
		case 5:
			own = notify.Preferences{Muted: []notify.EventType{notify.Promo}, Quiet: quiet.Hours{{From: 480, To: 600}}}
		default:
			continue
		}
		must.OK(t, h.store.SetPreferences(t.Context(), fmt.Sprint(i+1), own))
	}
}

func (h *history) apply(t *testing.T, all []processor.Delivery) {
	t.Helper()
	at := map[string]int{}
	var batches []processor.Batch
	for _, d := range all {
		d.Settler = processor.SettlerFunc(func(v processor.Verdict) {
			if v.Outcome != processor.Decided && v.Outcome != processor.Known {
				t.Errorf("%s: %v", v.Outcome, v.Err)
			}
		})
		i, ok := at[d.User()]
		if !ok {
			i = len(batches)
			at[d.User()] = i
			batches = append(batches, processor.Batch{User: d.User()})
		}
		batches[i].Deliveries = append(batches[i].Deliveries, d)
	}
	h.p.Apply(t.Context(), batches)
	must.OK(t, h.p.Mark(t.Context()))
}

// claim decides deferrals that are due, and reports whether there were any.
func (h *history) claim(t *testing.T) bool {
	t.Helper()
	due, err := h.store.Claim(t.Context(), h.now, h.now+60_000, 500)
	must.OK(t, err)
	at := map[string]int{}
	var all []processor.Delivery
	for _, d := range due {
		key := fmt.Sprint(d.Event.UserID, "/", d.DigestKey, "/", d.DueAt)
		if i, ok := at[key]; ok && d.DigestKey != "" {
			all[i].Due = append(all[i].Due, d)
			continue
		}
		at[key] = len(all)
		all = append(all, processor.Delivery{Due: []notify.Due{d}})
	}
	h.apply(t, all)
	return len(due) > 0
}

// byUser refuses to read the decisions of many users at once.
type byUser struct {
	store
	t       *testing.T
	read    map[string]int
	largest int
}

func (b *byUser) Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	if f.User == "" || b.read[f.User] > 0 {
		b.t.Errorf("the decisions of user %q are read, %d were read before", f.User, b.read[f.User])
	}
	return func(yield func(notify.Decided, error) bool) {
		for d, err := range b.store.Records(ctx, f) {
			b.read[f.User]++
			b.largest = max(b.largest, b.read[f.User])
			if !yield(d, err) {
				return
			}
		}
	}
}

// simulate decides the decisions from an instant on anew.
func (h *history) simulate(t *testing.T, c simulate.Config) (*simulate.Report, *byUser) {
	t.Helper()
	reader := &byUser{store: h.store, t: t, read: map[string]int{}}
	if c.To = h.now + 1; c.Sample == 0 {
		c.Sample = 1
	}
	report, err := simulate.Run(t.Context(), reader, c)
	must.OK(t, err)
	return report, reader
}

// judge simulates a history: the set in force changes nothing, a lower cap does.
func (h *history) judge(t *testing.T) {
	t.Helper()
	for _, from := range []engine.Millis{start, start + 2*day, start + 5*day} {
		report, _ := h.simulate(t, simulate.Config{Set: h.set, From: from})
		if report.Changed != 0 || report.Added != 0 || report.Read == 0 || report.NotReplayable == 0 {
			t.Errorf("from day %d, the set in force: %+v", (from-start)/day, report)
		}
	}
	fewer := *h.set
	fewer.Policy.Caps = notify.Caps{1, 2, 4}
	report, _ := h.simulate(t, simulate.Config{Set: &fewer, From: start})
	var n int64
	for _, c := range report.Matrix {
		if c.Was != "none" {
			n += c.N
		}
	}
	if report.Changed == 0 || len(report.Rules) == 0 || len(report.MostChanged) != 10 || n == 0 || n > report.Read {
		t.Errorf("a lower cap: %+v", report)
	}
	user := report.MostChanged[0]
	one, _ := h.simulate(t, simulate.Config{Set: &fewer, From: start, User: user.ID})
	if one.Changed+one.Added != user.N || one.Users != 1 {
		t.Errorf("user %s alone: %+v, want %d changes", user.ID, one, user.N)
	}
	some, reader := h.simulate(t, simulate.Config{Set: &fewer, From: start, Sample: .5})
	if int64(len(reader.read)) != some.Users || some.Users < report.Users/4 || some.Users > report.Users*3/4 {
		t.Errorf("a half of %d users: %d", report.Users, some.Users)
	}
	var text bytes.Buffer
	report.Print(&cli.Text{W: &text})
	for _, want := range []string{"Assumed: ", "FATIGUE_CAP_", "Users with the most changes", "was \\ would"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

// Promise(ledger/simulate)
func TestSimulationInMemory(t *testing.T) { run(t, memory.New(), 120, 3000, 20).judge(t) }

func open(t *testing.T) *postgres.Ledger {
	t.Helper()
	server := pgtest.Shared(t)
	l, err := postgres.Open(server.URL(server.Database(t, "")), 4)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, l.Close()) })
	must.OK(t, l.Setup(t.Context()))
	_, err = l.EnsurePartitions(t.Context(), start, days+2)
	must.OK(t, err)
	return l
}

// Promise(ledger/simulate)
func TestSimulationInPostgres(t *testing.T) {
	events := 500
	if os.Getenv("KEYFOLD_SOAK") != "" {
		events = 1500
	}
	run(t, open(t), 60, events, 30).judge(t)
}

// TestManyDecisions simulates the set in force in PostgreSQL, with KEYFOLD_SOAK=1 over
// 1,000,000 decisions in memory: PostgreSQL would take longer to make than to simulate them.
//
// Promise(acceptance/o2)
func TestManyDecisions(t *testing.T) {
	var l store
	users, events := 60, 1000
	if os.Getenv("KEYFOLD_SOAK") != "" {
		l, users, events = memory.New(), 20_000, 850_000
	} else {
		l = open(t)
	}
	h := run(t, l, users, events, users/4)
	began := time.Now()
	var peak uint64
	report, reader := h.simulate(t, simulate.Config{Set: h.set, From: start, Done: func(n int64) {
		if n%100 == 0 { // now and then: it stops the process
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	}})
	if report.Changed != 0 || report.Added != 0 || report.Read < int64(events)/2 {
		t.Errorf("the set in force: %+v", report)
	}
	t.Logf("%d decisions of %d users in %v, the most of one user %d, heap at most %d MiB, %d not replayable",
		report.Read, report.Users, time.Since(began), reader.largest, peak>>20, report.NotReplayable)
}

func TestConfig(t *testing.T) {
	c := simulate.Config{From: 2, To: 1, Sample: 2, User: strings.Repeat("x", 200)}
	err := c.Validate()
	if err == nil || !strings.Contains(err.Error(), "--last") || !strings.Contains(err.Error(), "--sample") || !strings.Contains(err.Error(), "128") {
		t.Errorf("%v", err)
	}
}
