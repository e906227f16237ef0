package published

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/sink/ledger/postgres"
)

// Samples that are kept between two writes, of each pair of outcomes.
const samplesPerPair = 10

// outcomes are those of records; the index is that of notify's, less one.
var outcomes = [...]notify.Outcome{notify.Now, notify.Later, notify.Never}

// shadows counts what a candidate would have decided.
type shadows struct {
	fault  atomic.Pointer[error] // why the candidate cannot be used; nil: it can, or there is none
	totals [len(outcomes)][len(outcomes)]atomic.Int64

	// Only used by Load, and by Follow after it.
	candidate *notify.Set // nil: none
	number    int64       // that was judged last; 0: none

	mu      sync.Mutex
	version string // of the candidate of which the rest is
	pairs   [len(outcomes)][len(outcomes)]tally
}

// tally is what was not written yet of a pair of outcomes.
type tally struct {
	differ, decisions int64
	samples           []postgres.ShadowSample
}

// exchange takes another candidate over; 0: none. The error is transient.
func (s *shadows) exchange(ctx context.Context, store Store, number int64, local notify.Local) error {
	if number == s.number {
		return nil
	}
	var candidate *notify.Set
	var fault *error
	if number != 0 {
		document, err := store.Shadow(ctx, number)
		if err != nil && engine.KindOf(err) != engine.Configuration && !errors.Is(err, postgres.ErrNoSet) {
			return err
		}
		if err == nil {
			candidate, err = compile(document, number, local)
		}
		if err != nil {
			err = fmt.Errorf("the candidate %d cannot be used by this version of keyfold, and nothing is decided by it: %w", number, err)
			fault = &err
		}
	}
	s.candidate, s.number = candidate, number
	s.fault.Store(fault)
	return nil
}

// Observe implements [notify.Shadows].
func (s *Sets) Observe(candidate *notify.Set, was []notify.Decided, would []notify.Record) {
	h := &s.shadows
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.version != candidate.Version {
		h.version, h.pairs = candidate.Version, [len(outcomes)][len(outcomes)]tally{}
	}
	for i := range would {
		h.count(&was[i].Record, &would[i])
	}
}

// count takes in one decision. What quiet hours would have postponed waits: it is a LATER.
func (s *shadows) count(was, would *notify.Record) {
	outcome := would.Outcome
	if outcome == notify.Postponed {
		outcome = notify.Later
	}
	i, j := was.Outcome-1, outcome-1
	s.totals[i][j].Add(1)
	t := &s.pairs[i][j]
	t.decisions++
	if same(was, would) {
		return
	}
	if t.differ++; len(t.samples) < samplesPerPair {
		t.samples = append(t.samples, postgres.ShadowSample{
			Set: was.RuleVersion, Decision: was.DecisionID, DecidedAt: was.DecidedAt,
			Was: was.Outcome, WasReasons: was.Reasons, Would: outcome, WouldReasons: would.Reasons,
		})
	}
}

// same reports whether the user would have met the same.
func same(a, b *notify.Record) bool {
	return a.Outcome == b.Outcome && a.DeferUntil == b.DeferUntil && a.DigestKey == b.DigestKey &&
		slices.Equal(a.Reasons, b.Reasons) && slices.Equal(a.Channels, b.Channels)
}

// write adds what was counted to the store's table. Where that fails it is lost there, and
// the process's own series have it: the candidate is an experiment, which slows nothing.
func (s *shadows) write(ctx context.Context, store Store) {
	s.mu.Lock()
	version, pairs := s.version, s.pairs
	s.version, s.pairs = "", [len(outcomes)][len(outcomes)]tally{}
	s.mu.Unlock()
	if version == "" {
		return
	}
	var counts []postgres.ShadowPair
	var samples []postgres.ShadowSample
	for i := range pairs {
		for j := range pairs[i] {
			if t := &pairs[i][j]; t.decisions > 0 {
				counts = append(counts, postgres.ShadowPair{Was: outcomes[i], Would: outcomes[j], Differ: t.differ, Decisions: t.decisions})
				samples = append(samples, t.samples...)
			}
		}
	}
	number, _ := strconv.ParseInt(version, 10, 64) // compile made it
	_ = store.NoteShadow(ctx, number, counts, samples)
}

func (s *shadows) register(set *metric.Set) {
	for i, was := range outcomes {
		for j, would := range outcomes {
			set.Counter(fmt.Sprintf("keyfold_notify_shadow_total{was=%q,would=%q}", was, would),
				"Decisions, and what the candidate of `rules shadow` would have decided.", s.totals[i][j].Load)
		}
	}
}
