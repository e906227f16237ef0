package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Results of a verdict.
const (
	Pass        = "pass"
	Fail        = "fail"
	NotMeasured = "not measured"
)

// The success criteria of docs/SPECIFICATION.md.
const (
	SC001 = "SC-001"
	SC002 = "SC-002"
	SC003 = "SC-003"
	SC004 = "SC-004"
	SC005 = "SC-005"
	SC006 = "SC-006"
	SC007 = "SC-007"
	SC008 = "SC-008"
)

// Verdict says whether a success criterion is met.
type Verdict struct {
	ID     string `json:"id"`
	Target string `json:"target"`
	Result string `json:"result"`
	Seen   string `json:"seen"` // "" where it was not measured
	Why    string `json:"why"`  // it was not measured
}

func unmeasured(disturbed bool) []Verdict {
	why := "this scenario does not tell"
	if disturbed {
		why = "disturbed"
	}
	all := []Verdict{
		{ID: SC001, Target: "the API answers in less than 200 ms (p99.9)"},
		{ID: SC002, Target: "an event is in its profile within 30 s (p99.9)"},
		{ID: SC003, Target: "three workers keep up with 1,000 events a minute"},
		{ID: SC004, Target: "99.9 % of the events are folded, the others are dead letters"},
		{ID: SC005, Target: "no event is lost in a restart"},
		{ID: SC006, Target: "throughput grows with the workers, up to 10: at least 0.8 of linear"},
		{ID: SC007, Target: "an event that comes twice leaves its profile as it is"},
		{ID: SC008, Target: "fewer than 5,000 events wait in the queue"},
	}
	for i := range all {
		all[i].Result, all[i].Why = NotMeasured, why
	}
	return all
}

// Judge gives a verdict by what was seen. Of several, the first fail stays. A disturbed
// measurement gives none.
func (r *Report) Judge(criterion string, met bool, seen string, args ...any) {
	v := r.verdict(criterion)
	switch {
	case r.Disturbed, v.Result == Fail:
		return
	}
	v.Result, v.Seen, v.Why = Fail, fmt.Sprintf(seen, args...), ""
	if met {
		v.Result = Pass
	}
}

// Unjudged says why a criterion was not measured.
func (r *Report) Unjudged(criterion, why string) {
	if !r.Disturbed {
		r.verdict(criterion).Why = why
	}
}

func (r *Report) verdict(criterion string) *Verdict {
	return &r.Verdicts[slices.IndexFunc(r.Verdicts, func(v Verdict) bool { return v.ID == criterion })]
}

// Err is an error where a criterion or a target of the scenario's own was missed.
func (r *Report) Err() error {
	failed := slices.Clone(r.Missed)
	for _, v := range r.Verdicts {
		if v.Result == Fail {
			failed = append(failed, fmt.Sprintf("%s is not met: %s; wanted: %s", v.ID, v.Seen, v.Target))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return errors.New(strings.Join(failed, "\n"))
}
