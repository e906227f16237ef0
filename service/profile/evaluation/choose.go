package evaluation

import (
	"context"
	"fmt"
	"math"
	"strings"

	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
)

const (
	// A recommendation needs this many questions and users in the part to test by.
	enoughQuestions = 200
	enoughUsers     = 50
	// worthwhile is the gain below which a setting stays as it is.
	worthwhile = 0.02
	// longDays is the shortest half-life that is offered in place of the current one. A
	// shorter one forgets what was bought, and is offered as a second vector.
	longDays = 1

	weightRounds = 2
)

// choose picks the best of each kind by the one part and judges it by the other.
func (e *evaluation) choose(ctx context.Context) error {
	r := e.report
	r.Verdicts = append(r.Verdicts, e.judge("half-life", func(row *Row) bool {
		return row.Kind == "half-life" && (row.HalfLifeDays == 0 && row.Name == "never" || row.HalfLifeDays >= longDays)
	}))
	if e.hasVectors() {
		r.Verdicts = append(r.Verdicts, e.judge(SecondVector, func(row *Row) bool { return row.Kind == "mix" }))
	}
	if !e.Tables {
		return nil
	}
	return e.chooseWeights(ctx)
}

// judge compares the best of the rows that are meant with the current setting.
func (e *evaluation) judge(what string, meant func(*Row) bool) Verdict {
	current := e.report.Row(e.current.Name)
	best := current
	for i := range e.report.Rows {
		if row := &e.report.Rows[i]; meant(row) && !row.TooShort && better(row.Choose.HR, best.Choose.HR) {
			best = row
		}
	}
	return e.verdict(what, best, current)
}

// verdict says whether the part to test by supports a change: the gain is at least
// [worthwhile], and above 0 in 95 of 100 draws.
func (e *evaluation) verdict(what string, best, current *Row) Verdict {
	v := Verdict{What: what, Best: best.Name}
	if current.Test.HR > 0 {
		v.Gain, v.Least = best.Test.HR/current.Test.HR-1, best.Difference.Low/current.Test.HR
	}
	switch {
	case e.report.Questions < enoughQuestions || e.report.Users < enoughUsers:
		v.Why = fmt.Sprintf("the test part has %d questions of %d users: a recommendation needs %d of %d; give a longer log",
			e.report.Questions, e.report.Users, enoughQuestions, enoughUsers)
	case what == "half-life" && current.TooShort:
		v.Why = fmt.Sprintf("the log spans %s, %d half-lives of %s are needed to judge it", lengthText(e.First.Days(e.Last)), shortLog, current.Name)
	case best == current:
		v.Why = "none was better in the part to choose by"
	case v.Least <= 0:
		v.Why = "in the test part the difference may be chance"
	case v.Gain < worthwhile:
		v.Why = fmt.Sprintf("in the test part the gain is below %.0f %%", worthwhile*100)
	default:
		v.Change, v.Why = true, "the test part agrees"
	}
	return v
}

// factors are what a weight is multiplied by.
var factors = []float64{0.25, 0.5, 1, 2, 4}

// weighed are the types that are at least a hundredth of the events, where there are
// several.
func (e *evaluation) weighed() (types []profile.EventType) {
	seen := e.TypeCounts()
	for _, t := range profile.EventTypes() {
		if seen[t]*100 >= e.Timeline.Events {
			types = append(types, t)
		}
	}
	if len(types) < 2 {
		return nil
	}
	return types
}

// chooseWeights goes along one weight at a time, by the part to choose by.
func (e *evaluation) chooseWeights(ctx context.Context) error {
	types := e.weighed()
	if types == nil {
		return nil
	}
	best := e.current
	var last *eval.Result
	for range weightRounds {
		for _, t := range types {
			plan := eval.Plan{Settings: []eval.Setting{best}}
			for _, factor := range factors {
				s := best
				w := e.current.Weights[t]
				size := min(profile.MaxWeight, max(profile.MinWeight, math.Abs(w)*factor))
				s.Weights[t] = math.Copysign(size, w)
				plan.Settings = append(plan.Settings, s)
			}
			result, err := e.pass(ctx, plan)
			if err != nil {
				return err
			}
			at := 0
			for i := range result.Rows {
				if better(result.Rows[i].Choose.HR, result.Rows[at].Choose.HR) {
					at = i
				}
			}
			best = plan.Settings[at]
			last = result.Only(at)
		}
	}
	var words []string
	for _, t := range types {
		e.report.Weights = append(e.report.Weights, best.Weights[t])
		words = append(words, fmt.Sprintf("%s %g", t, best.Weights[t]))
	}
	row := Row{Name: strings.Join(words, ", "), Kind: "weights"}
	if best.Weights == e.current.Weights {
		current := e.report.Row(e.current.Name)
		e.report.Verdicts = append(e.report.Verdicts, e.verdict("weights", current, current))
		return nil
	}
	last.Rows[0].Name = row.Name
	e.addRows(last, []Row{row})
	e.report.Verdicts = append(e.report.Verdicts, e.verdict("weights", e.report.Row(row.Name), e.report.Row(e.current.Name)))
	return nil
}
