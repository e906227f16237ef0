package published

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"keyfold/sink/ledger/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a store in memory.
type store struct {
	mu     sync.Mutex
	sets   []string // the last one is in force
	fault  error
	reads  int
	active int
}

func (s *store) Active(context.Context) (postgres.Active, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
	return postgres.Active{Set: int64(len(s.sets))}, s.fault
}

func (s *store) RuleSet(_ context.Context, version int64) (postgres.RuleSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return postgres.RuleSet{Version: version, Document: []byte(s.sets[version-1])}, s.fault
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
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		of, s := &store{}, newSets(&log)
		if err := s.Load(t.Context(), of); engine.ReasonOf(err) != ReasonNoSet || s.Current() != nil || !strings.Contains(s.Notes()[0], "keyfold notify setup") {
			t.Fatalf("%v %q", err, s.Notes())
		}
		of.publish(string(rule.Default()))
		if err := s.Load(t.Context(), of); err != nil {
			t.Fatal(err)
		}
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
func TestLoadOfAFaultySet(t *testing.T) {
	of, s := &store{sets: []string{empty, `{"version":"x","rules":[{"mood":1}]}`}}, newSets(io.Discard)
	err := s.Load(t.Context(), of)
	if engine.ReasonOf(err) != ReasonSet || !strings.Contains(err.Error(), "rules rollback") || s.Current() != nil {
		t.Errorf("%v", err)
	}
}
