package ruleset

import (
	"fmt"
	"strings"

	"keyfold/internal/cli"
)

// Shadow is what the decisions by a candidate came to.
type Shadow struct {
	On        bool           `json:"shadow"`    // workers decide by it
	Candidate int64          `json:"candidate"` // 0: there was none
	Decisions int64          `json:"decisions"`
	Differ    int64          `json:"differ"`
	Pairs     []ShadowPair   `json:"pairs"`
	Samples   []ShadowSample `json:"samples"` // newest first
}

// ShadowPair counts decisions by what they were and what the candidate would have decided.
type ShadowPair struct {
	Was       string `json:"was"`
	Would     string `json:"would"`
	Differ    int64  `json:"differ"`
	Decisions int64  `json:"decisions"`
}

// ShadowSample is a decision that differs.
type ShadowSample struct {
	Decision     string   `json:"decision_id"`
	Set          string   `json:"rule_version"`
	At           string   `json:"decided_at"`
	Was          string   `json:"was"`
	WasReasons   []string `json:"was_reasons"`
	Would        string   `json:"would"`
	WouldReasons []string `json:"would_reasons"`
}

// Headline says what the candidate came to, in one sentence.
func (s *Shadow) Headline() string {
	state := "is on"
	if !s.On {
		state = "has ended"
	}
	return fmt.Sprintf("the candidate %d %s: %d of %s differ", s.Candidate, state, s.Differ, cli.Count(s.Decisions, "decision"))
}

// Print prints it, where there was a candidate.
func (s *Shadow) Print(w *cli.Text) {
	w.Line("%s", s.Headline())
	for _, p := range s.Pairs {
		w.Line("  %-5s -> %-5s  %d, of which %d differ", p.Was, p.Would, p.Decisions, p.Differ)
	}
	for i := range s.Samples {
		one := &s.Samples[i]
		w.Line("decision %s at %s, by the set %s: %s %s, would be %s %s", one.Decision, one.At, one.Set,
			one.Was, strings.Join(one.WasReasons, " "), one.Would, strings.Join(one.WouldReasons, " "))
	}
}
