package published

import (
	"context"
	"fmt"

	"keyfold/internal/cli"
	"keyfold/service/notify/ruleset"
	"keyfold/sink/ledger/postgres"
)

// List lists at most n sets, newest first.
func List(ctx context.Context, l *postgres.Ledger, n int) (*ruleset.List, error) {
	active, err := l.Active(ctx)
	if err != nil {
		return nil, err
	}
	sets, err := l.RuleSets(ctx, n)
	if err != nil {
		return nil, err
	}
	list := &ruleset.List{Sets: make([]ruleset.Listed, len(sets))}
	for i := range sets {
		list.Sets[i] = Listed(&sets[i])
		list.Sets[i].InForce = sets[i].Version == active.Set
	}
	return list, nil
}

// Listed is a set as a list has it. Whether it is in force is not said.
func Listed(s *postgres.RuleSet) ruleset.Listed {
	return ruleset.ListedOf(s.Version, s.Document, s.Checksum, s.PublishedAt.Time(), s.PublishedBy, s.Note)
}

// Set reads a set; 0: the one in force.
func Set(ctx context.Context, l *postgres.Ledger, version int64) (postgres.RuleSet, error) {
	if version == 0 {
		return InForce(ctx, l)
	}
	set, err := l.RuleSet(ctx, version)
	if err != nil {
		err = fmt.Errorf("the set %d: %w", version, err)
	}
	return set, err
}

// Diff compares two sets.
func Diff(ctx context.Context, l *postgres.Ledger, a, b int64) (*ruleset.Diff, error) {
	was, err := Set(ctx, l, a)
	if err != nil {
		return nil, err
	}
	is, err := Set(ctx, l, b)
	if err != nil {
		return nil, err
	}
	return ruleset.DiffOf(a, b, was.Document, is.Document)
}

// ShadowOf reads what the decisions by the candidate came to, with at most n samples.
func ShadowOf(ctx context.Context, l *postgres.Ledger, n int) (*ruleset.Shadow, error) {
	r, err := l.ShadowReport(ctx, n)
	if err != nil {
		return nil, err
	}
	s := &ruleset.Shadow{On: r.On, Candidate: r.Version, Pairs: []ruleset.ShadowPair{}, Samples: []ruleset.ShadowSample{}}
	for _, p := range r.Pairs {
		s.Decisions, s.Differ = s.Decisions+p.Decisions, s.Differ+p.Differ
		s.Pairs = append(s.Pairs, ruleset.ShadowPair{Was: p.Was.String(), Would: p.Would.String(), Differ: p.Differ, Decisions: p.Decisions})
	}
	for i := range r.Samples {
		one := &r.Samples[i]
		s.Samples = append(s.Samples, ruleset.ShadowSample{
			Decision: one.Decision.String(), Set: one.Set, At: cli.At(one.DecidedAt.Time()),
			Was: one.Was.String(), WasReasons: one.WasReasons, Would: one.Would.String(), WouldReasons: one.WouldReasons,
		})
	}
	return s, nil
}
