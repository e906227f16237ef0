// Package published follows the sets of rules that are published in the ledger: a process
// decides by the one in force, and takes the next one over without a restart.
package published

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/cure"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/sink/ledger/postgres"
)

// Interval is the time between two looks at which set is in force.
const Interval = 2 * time.Second

// Reasons of the faults of sets.
const (
	ReasonNoSet = "rules_not_published"
	ReasonSet   = "rules_faulty"
)

// Store keeps the published sets.
type Store interface {
	Active(context.Context) (postgres.Active, error)
	RuleSet(context.Context, int64) (postgres.RuleSet, error)
	Shadow(context.Context, int64) ([]byte, error)
	NoteShadow(context.Context, int64, []postgres.ShadowPair, []postgres.ShadowSample) error
}

var _ Store = (*postgres.Ledger)(nil)

// Sets is the set in force, as of the last look. It implements [notify.Sets] and
// [notify.Shadows].
type Sets struct {
	local notify.Local
	log   *slog.Logger

	current atomic.Pointer[notify.Set]
	number  atomic.Int64          // of current
	fault   atomic.Pointer[error] // why a later set is not in force here; nil: there is none
	shadows shadows

	// Only used by Load, and by Follow after it.
	store   Store
	seen    postgres.Active // the last one that was judged
	verdict error           // on its set: a configuration error, nil where it is in force
}

// New returns the sets of a store that [Sets.Load] names, for users with these hours.
func New(local notify.Local, log *slog.Logger) *Sets {
	return &Sets{local: local, log: log.With("component", "notify")}
}

// Current implements [notify.Sets]. It is nil until a set is loaded.
func (s *Sets) Current() *notify.Set { return s.current.Load() }

// Load reads the set in force. The error is a configuration error where none is published,
// and where the one in force cannot be used: there is no other one to decide by.
func (s *Sets) Load(ctx context.Context, store Store) error {
	s.store = store
	return s.refresh(ctx)
}

// Follow looks for another set every [Interval], from now on until ctx ends. Load comes
// before it; it need not have succeeded.
func (s *Sets) Follow(ctx context.Context) {
	for backoff.Sleep(ctx, Interval) {
		_ = s.refresh(ctx) // it is noted; while the store is away, the set stays
		s.shadows.write(ctx, s.store)
	}
}

// refresh takes another set over. A set that cannot be used leaves the one in force.
func (s *Sets) refresh(ctx context.Context) error {
	active, err := s.store.Active(ctx)
	switch {
	case err != nil:
	case active.Set == 0:
		err = engine.ConfigurationError(ReasonNoSet, &postgres.NotActiveError{})
	case active == s.seen:
		err = s.verdict
	default:
		err = s.exchange(ctx, active)
	}
	if err != nil && engine.KindOf(err) != engine.Configuration {
		return err
	}
	s.note(err)
	return err
}

// exchange compiles what is in force now and puts it in the place of what was. A candidate
// that cannot be used is none.
func (s *Sets) exchange(ctx context.Context, active postgres.Active) error {
	verdict, set := s.verdict, s.current.Load()
	if active.Set != s.seen.Set {
		next, err := s.read(ctx, active.Set)
		if err != nil && engine.KindOf(err) != engine.Configuration {
			return err
		}
		if verdict = err; err == nil {
			set = next
		}
	}
	if err := s.shadows.exchange(ctx, s.store, active.Shadow, s.local); err != nil {
		return err
	}
	s.seen, s.verdict = active, verdict
	if set == nil {
		return verdict
	}
	combined := *set
	combined.Shadow = s.shadows.candidate
	s.current.Store(&combined)
	if number, _ := strconv.ParseInt(set.Version, 10, 64); number != s.number.Swap(number) {
		s.log.Info("rules in force", slog.Int64("set", number))
	}
	return verdict
}

// rollbackCommand brings an earlier set into force.
const rollbackCommand cure.Name = "postgres.Rollback"

// read compiles a published set.
func (s *Sets) read(ctx context.Context, number int64) (*notify.Set, error) {
	stored, err := s.store.RuleSet(ctx, number)
	if err != nil {
		return nil, err
	}
	set, err := compile(stored.Document, number, s.local)
	if err != nil {
		err = engine.ConfigurationError(ReasonSet, fmt.Errorf(
			"the set %d cannot be used by this version of keyfold: run the version that published it, or %s to a set before it: %w", number, rollbackCommand, err))
	}
	return set, err
}

func compile(text []byte, number int64, local notify.Local) (*notify.Set, error) {
	document, faults := rule.Read(text)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	set := rule.Compile(document, local)
	set.Version = strconv.FormatInt(number, 10)
	return set, nil
}

// note keeps a fault, nil for none, and logs what is new.
func (s *Sets) note(err error) {
	before := s.Fault()
	if err == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&err)
	if current := s.Current(); current != nil && (before == nil || before.Error() != err.Error()) {
		s.log.Error("another set of rules cannot be used", slog.String("rules", current.Version), slog.Any("error", err),
			slog.String("hint", "publish a set without the fault; decisions go on by the set before it"))
	}
}

// Fault returns why a later set is not in force here, nil where it is.
func (s *Sets) Fault() error {
	if fault := s.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// Notes say what keeps a set from being used.
func (s *Sets) Notes() (notes []string) {
	switch fault, current := s.Fault(), s.Current(); {
	case fault == nil:
	case current == nil:
		notes = append(notes, "rules: none are in force: "+fault.Error())
	default:
		notes = append(notes, fmt.Sprintf("rules: deciding by the set %s: %v", current.Version, fault))
	}
	if fault := s.shadows.fault.Load(); fault != nil {
		notes = append(notes, "rules: "+(*fault).Error())
	}
	return notes
}

// Register adds the series to set.
func (s *Sets) Register(set *metric.Set) {
	set.Gauge("keyfold_notify_rules_version", "Number of the set of rules in force; 0: none yet.", func() float64 { return float64(s.number.Load()) })
	set.Gauge("keyfold_notify_rules_fault", "1: a later set of rules cannot be used by this process.", func() float64 {
		if s.Fault() != nil {
			return 1
		}
		return 0
	})
	s.shadows.register(set)
}
