package processor_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
)

// beside is a candidate, made of the shipped set, and what was observed of it.
type beside struct {
	change    func(*notify.Set)
	candidate *notify.Set

	t        *testing.T
	observed map[uuid.UUID]int // by event: one more for each turn
	differ   int
}

func (b *beside) set(t testing.TB) *notify.Set {
	set := shippedSet(t)
	if b.candidate == nil {
		b.candidate = shippedSet(t)
		b.candidate.Version = "candidate"
		b.change(b.candidate)
	}
	set.Shadow = b.candidate
	return set
}

func (b *beside) Observe(candidate *notify.Set, was []notify.Decided, would []notify.Record) {
	if candidate != b.candidate || len(was) != len(would) {
		b.t.Errorf("%d decisions are observed with %d", len(was), len(would))
		return
	}
	for i := range was {
		a, c := &was[i].Record, &would[i]
		b.observed[a.EventID]++
		if a.EventID != c.EventID || a.Turn != c.Turn || a.Turn != b.observed[a.EventID]-1 || a.DecidedAt != c.DecidedAt || c.RuleVersion != "candidate" || a.RuleVersion == "candidate" {
			b.t.Errorf("turn %d of %s is observed with turn %d of %s", a.Turn, a.EventID, c.Turn, c.EventID)
		}
		if a.Outcome != c.Outcome || a.DeferUntil != c.DeferUntil || !slices.Equal(a.Reasons, c.Reasons) {
			b.differ++
		}
	}
}

// A candidate has no effect: the same records are made without it. Each stored record is
// observed once, with what the candidate makes of the same event, also amid failures,
// conflicts and lost answers. The set in force as its own candidate differs nowhere.
//
// Promise(notify-worker/shadow): A candidate set that decides beside the one in force changes no
// decision; each is compared once, also amid conflicts.
func TestACandidateHasNoEffect(t *testing.T) {
	want := replayed(t, 0, 0).records(t)
	for name, c := range map[string]struct {
		change  func(*notify.Set)
		differs bool
	}{
		"the same":       {func(*notify.Set) {}, false},
		"tighter caps":   {func(s *notify.Set) { s.Policy.Caps = notify.Caps{1, 1, 2} }, true},
		"other identity": {func(s *notify.Set) { s.Policy.Identity = []string{"nothing"} }, true},
		"no rules":       {func(s *notify.Set) { s.Rules = nil }, true},
	} {
		percents := []int{0}
		if name == "tighter caps" || long {
			percents = []int{0, 20}
		}
		for _, percent := range percents {
			b := &beside{change: c.change, t: t, observed: map[uuid.UUID]int{}}
			f := replayedBeside(t, b, 3, percent)
			checkReplay(t, f)
			records := 0
			for user, got := range f.records(t) {
				records += len(got)
				if !reflect.DeepEqual(stripped(got), stripped(want[user])) {
					t.Errorf("%s, user %s: %s", name, user, firstDifference(stripped(got), stripped(want[user])))
				}
			}
			observed := 0
			for _, n := range b.observed {
				observed += n
			}
			if observed != records || (b.differ > 0) != c.differs {
				t.Errorf("%s: %d of %d records were observed, %d differ", name, observed, records, b.differ)
			}
		}
	}
}

// exchanged is another set at each call.
type exchanged struct {
	t     *testing.T
	calls atomic.Int64
}

func (e *exchanged) Current() *notify.Set {
	set := shippedSet(e.t)
	set.Version = fmt.Sprint(e.calls.Add(1))
	return set
}

// A flush ends with the set with which it began: all of its users' records name it, also
// those that were decided again after conflicts and a lost call.
//
// Promise(notify-worker/rules-in-force, acceptance/o4)
func TestAFlushEndsWithItsSet(t *testing.T) {
	f, all := newFixture(t, false), &exchanged{t: t}
	config := processor.DefaultConfig()
	config.Pause, config.MaxPause = time.Microsecond, time.Millisecond
	p, err := processor.New(config, processor.Ports{
		Ledger: f.faults, Dispatcher: f.out, Sets: all, Clock: func() engine.Millis { return f.now },
	})
	must.OK(t, err)
	f.Processor = p
	refused := map[string]int{}
	f.faults.commits = func(c notify.Change) error {
		if refused[c.User]++; c.User != "0" && refused[c.User] < 4 {
			return engine.ErrConflict
		}
		return nil
	}
	for flush := range 3 {
		var deliveries []processor.Delivery
		for user := range 4 {
			for i := range 3 {
				deliveries = append(deliveries, processor.Delivery{Event: post(t, fmt.Sprint(user), "UPDATE", fmt.Sprintf("Order %d of %d", i, flush))})
			}
		}
		for _, v := range f.decide(t.Context(), deliveries...) {
			if v.Outcome != processor.Decided || v.Records[0].RuleVersion != fmt.Sprint(flush+1) {
				t.Errorf("flush %d: %+v", flush, v)
			}
		}
	}
}
