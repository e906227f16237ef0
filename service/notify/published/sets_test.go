package published

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a store in memory.
type store struct {
	mu    sync.Mutex
	sets  []string // the last one is in force
	fault error
	reads int

	shadow  string // "": none
	version int64  // of shadow
	pairs   []postgres.ShadowPair
	samples []postgres.ShadowSample
}

func (s *store) Active(context.Context) (postgres.Active, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := postgres.Active{Set: int64(len(s.sets))}
	if s.shadow != "" {
		a.Shadow = s.version
	}
	return a, s.fault
}

func (s *store) RuleSet(_ context.Context, version int64) (postgres.RuleSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return postgres.RuleSet{Version: version, Document: []byte(s.sets[version-1])}, s.fault
}

func (s *store) Shadow(context.Context, int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(s.shadow), s.fault
}

func (s *store) NoteShadow(_ context.Context, version int64, pairs []postgres.ShadowPair, samples []postgres.ShadowSample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != s.version {
		return fmt.Errorf("%d is noted, %d is the candidate", version, s.version)
	}
	s.pairs, s.samples = append(s.pairs, pairs...), append(s.samples, samples...)
	return s.fault
}

func (s *store) tries(document string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shadow, s.version = document, s.version+1
}

func (s *store) publish(document string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets = append(s.sets, document)
}

func (s *store) breaks(fault error) { s.mu.Lock(); defer s.mu.Unlock(); s.fault = fault }

func newSets(log io.Writer) *Sets {
	return New(notify.Local{Zone: quiet.UTC, Morning: 8 * 60}, slog.New(slog.NewTextHandler(log, nil)))
}

func page(s *Sets) string {
	var set metric.Set
	s.Register(&set)
	var text strings.Builder
	set.WritePrometheus(&text)
	return text.String()
}

func expect(t *testing.T, s *Sets, version string, fault int) {
	t.Helper()
	if got := s.Current(); got == nil || got.Version != version {
		t.Fatalf("the set in force is %+v, want %s", got, version)
	}
	text := page(s)
	for _, series := range []string{"keyfold_notify_rules_version " + version + "\n", fmt.Sprintf("keyfold_notify_rules_fault %d\n", fault)} {
		if !strings.Contains(text, series) {
			t.Errorf("no %s in %s", series, text)
		}
	}
	if notes := s.Notes(); len(notes) != fault {
		t.Errorf("notes %q", notes)
	}
}

const empty = `{"version":"x","rules":[]}`

// Another set is in force at the next look. One that this version cannot use leaves the
// last good one and is told once; the next good one cures it. While the store is away, the
// set stays.
//
// Promise(notify-worker/rules-in-force, notify-worker/unusable-set)
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		of, s := &store{}, newSets(&log)
		if err := s.Load(t.Context(), of); engine.ReasonOf(err) != ReasonNoSet || s.Current() != nil || !strings.Contains(s.Notes()[0], "postgres.Setup") {
			t.Fatalf("%v %q", err, s.Notes())
		}
		of.publish(string(rule.Default()))
		must.OK(t, s.Load(t.Context(), of))
		expect(t, s, "1", 0)
		ctx, cancel := context.WithCancel(t.Context())
		go s.Follow(ctx)
		defer synctest.Wait()
		defer cancel()
		look := func() { time.Sleep(Interval); synctest.Wait() }
		before := s.Current()
		look()
		if s.Current() != before || of.reads != 1 {
			t.Errorf("a set that is in force already was read %d times", of.reads)
		}
		of.publish(empty)
		time.Sleep(Interval - time.Millisecond)
		synctest.Wait()
		expect(t, s, "1", 0)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		expect(t, s, "2", 0)

		of.publish(`{"version":"x","rules":[],"moods":{"calm":1}}`)
		look()
		expect(t, s, "2", 1)
		if note := s.Notes()[0]; !strings.Contains(note, "deciding by the set 2") || !strings.Contains(note, "moods") || !strings.Contains(note, "the set 3") {
			t.Error(note)
		}
		reads := of.reads
		look()
		look()
		if n := strings.Count(log.String(), "cannot be used by"); n != 1 || of.reads != reads {
			t.Errorf("it was told %d times, and read %d times more", n, of.reads-reads)
		}
		of.breaks(errors.New("refused"))
		look()
		expect(t, s, "2", 1)
		of.breaks(engine.ConfigurationError("rights", errors.New("no right")))
		look()
		expect(t, s, "2", 1)
		of.breaks(nil)
		look()
		expect(t, s, "2", 1)
		if !strings.Contains(s.Notes()[0], "moods") {
			t.Error(s.Notes())
		}
		of.publish(empty)
		look()
		expect(t, s, "4", 0)
		of.breaks(engine.ConfigurationError("rights", errors.New("no right")))
		look()
		expect(t, s, "4", 1)
		of.breaks(nil)
		look()
		expect(t, s, "4", 0)
	})
}

// A process without a good set has none: it does not decide by rules of its own.
//
// Promise(notify-worker/unusable-set)
func TestLoadOfAFaultySet(t *testing.T) {
	of, s := &store{sets: []string{empty, `{"version":"x","rules":[{"mood":1}]}`}}, newSets(io.Discard)
	err := s.Load(t.Context(), of)
	if engine.ReasonOf(err) != ReasonSet || !strings.Contains(err.Error(), "postgres.Rollback") || s.Current() != nil {
		t.Errorf("%v", err)
	}
}

// A candidate comes with the set in force, stays while sets are exchanged, and goes. One
// that cannot be used is none, and the set in force is as it was. What is observed is
// counted in the series and written with a few samples of each pair of outcomes.
//
// Promise(notify-worker/shadow)
func TestShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, s := &store{sets: []string{empty}}, newSets(io.Discard)
		must.OK(t, s.Load(t.Context(), of))
		ctx, cancel := context.WithCancel(t.Context())
		go s.Follow(ctx)
		defer synctest.Wait()
		defer cancel()
		look := func() { time.Sleep(Interval); synctest.Wait() }
		shadow := func(version, candidate string) *notify.Set {
			t.Helper()
			look()
			expect(t, s, version, 0)
			got := s.Current().Shadow
			if (got == nil) != (candidate == "") || got != nil && got.Version != candidate {
				t.Fatalf("the candidate is %+v, want %q", got, candidate)
			}
			return got
		}
		shadow("1", "")
		of.tries(string(rule.Default()))
		shadow("1", "1")
		of.publish(empty)
		candidate := shadow("2", "1")

		same := notify.Record{Outcome: notify.Never, Reasons: []string{"A"}}
		later := notify.Record{Outcome: notify.Later, Reasons: []string{"B"}, DeferUntil: 5}
		for range 100 {
			s.Observe(candidate, []notify.Decided{{Record: same}, {Record: same}, {Record: later}},
				[]notify.Record{same, {Outcome: notify.Postponed}, {Outcome: notify.Later, Reasons: []string{"B"}, DeferUntil: 6}})
		}
		look()
		want := []postgres.ShadowPair{
			{Was: notify.Later, Would: notify.Later, Differ: 100, Decisions: 100},
			{Was: notify.Never, Would: notify.Later, Differ: 100, Decisions: 100},
			{Was: notify.Never, Would: notify.Never, Decisions: 100},
		}
		if !slices.Equal(of.pairs, want) || len(of.samples) != 2*samplesPerPair {
			t.Errorf("%+v, %d samples", of.pairs, len(of.samples))
		}
		if text := page(s); !strings.Contains(text, `keyfold_notify_shadow_total{was="NEVER",would="LATER"} 100`) {
			t.Error(text)
		}
		of.tries(`{"moods":1}`)
		look()
		if s.Current().Version != "2" || s.Current().Shadow != nil || len(s.Notes()) != 1 || !strings.Contains(s.Notes()[0], "the candidate 2 cannot be used") {
			t.Errorf("%+v %q", s.Current(), s.Notes())
		}
		of.tries(empty)
		shadow("2", "3")
		of.tries("")
		shadow("2", "")
		look()
		if len(of.pairs) != len(want) {
			t.Errorf("nothing was observed, and noted: %+v", of.pairs)
		}
	})
}
