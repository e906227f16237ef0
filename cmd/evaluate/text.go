package evaluate

import (
	"fmt"
	"math"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/service/profile/evaluation"
)

func millis(d time.Duration) engine.Millis { return engine.Millis(d.Milliseconds()) }

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func signed(x float64) string { return fmt.Sprintf("%+.0f %%", 100*x) }

// head says in a few sentences what the log says.
func head(r *evaluation.Report, lexical bool) (lines []string) {
	vectors := r.Vectors
	if lexical {
		vectors += " (lexical: your own may do better)"
	}
	lines = append(lines, fmt.Sprintf("%s of %s; vectors %s. Test: from %s on, %s of %s.", cli.Count(int64(r.Log.Events), "event"),
		cli.Count(int64(r.Log.Users), "user"), vectors, cli.At(r.Log.Test), cli.Count(int64(r.Questions), "question"), cli.Count(int64(r.Users), "user")))
	if r.Sample < 1 {
		lines = append(lines, fmt.Sprintf("Only %.2g %% of the users are asked, for the time it takes: --users 1 asks all.", 100*r.Sample))
	}
	current := r.Row(r.Current)
	lines = append(lines, fmt.Sprintf("A profile that holds %s finds %s among its first %d in %s of cases; chance finds %s.",
		r.Held, r.Asked, r.Cutoff, percent(current.Test.HR), percent(r.Row(eval.Random).Test.HR)))
	lines = append(lines, beside(r)...)
	for _, v := range r.Verdicts {
		lines = append(lines, verdict(r, v))
	}
	return lines
}

// beside compares the profile with what is had without keyfold. A difference counts where 95
// of 100 draws of the users agree.
func beside(r *evaluation.Report) (lines []string) {
	current := r.Row(r.Current)
	compare := func(what string, hits float64, fewer, more bool) {
		line := fmt.Sprintf("%s finds %s", what, percent(hits))
		switch {
		case hits > 0 && fewer:
			line += fmt.Sprintf(": the fresh profile finds %.0f %% more.", 100*(current.Test.HR/hits-1))
		case more:
			line += ", more than the profile."
		default:
			line += ": a difference that may be chance."
		}
		lines = append(lines, line)
	}
	for _, a := range r.Ages {
		if a.Seconds < 0 {
			compare("The same profile made each night", a.Current, a.Band.High < current.Interval.Low, a.Band.Low > current.Interval.High)
		}
	}
	if texts := r.Row(evaluation.TextsAlone); texts != nil {
		compare("The same profile of the texts alone", texts.Test.HR, texts.Difference.High < 0, texts.Difference.Low > 0)
	}
	popular := r.Row(eval.Popularity)
	compare("Popularity of the last days", popular.Test.HR, popular.Difference.High < 0, popular.Difference.Low > 0)
	var neighbours *evaluation.Row
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Kind == "baseline" && strings.HasPrefix(row.Name, "item kNN") && (neighbours == nil || row.Test.HR > neighbours.Test.HR) {
			neighbours = row
		}
	}
	if neighbours != nil {
		compare("Item kNN, which takes no vectors,", neighbours.Test.HR, neighbours.Difference.High < 0, neighbours.Difference.Low > 0)
	}
	return lines
}

func verdict(r *evaluation.Report, v evaluation.Verdict) string {
	found := fmt.Sprintf("%s finds %s (%s, at least %s in 95 of 100 draws)", v.Best, percent(r.Row(v.Best).Test.HR), signed(v.Gain), signed(v.Least))
	switch {
	case v.Change && v.What == evaluation.SecondVector:
		best := r.Row(v.Best)
		life := time.Duration(math.Round(best.HalfLifeDays*86400)) * time.Second
		return fmt.Sprintf("A second vector beside the first, mixed: %s. EMBEDDING_SHORT_HALF_LIFE=%v has profiles keep it, `user show --mix %v` asks with it.", found, life, best.Mix)
	case v.Change:
		return fmt.Sprintf("%s: %s.", other(v.What), found)
	case v.Best == r.Current || v.Gain == 0:
		return fmt.Sprintf("Keep the %s: %s.", what(v.What), v.Why)
	}
	return fmt.Sprintf("Keep the %s: %s (%s).", what(v.What), v.Why, found)
}

func what(kind string) string {
	if kind == evaluation.SecondVector {
		return "one vector"
	}
	return kind
}

func other(kind string) string {
	if kind == "weights" {
		return "Other weights (EMBEDDING_WEIGHT_...)"
	}
	return "Another " + kind
}

// leftOut says which product events were no question.
func leftOut(r *evaluation.Report) string {
	l := r.LeftOut
	left := l.Unknown + l.Cold + l.OtherType + l.First + l.Met + l.SameInstant
	return fmt.Sprintf("Left out: %s of %s product events of the test part (%s met before, %s first of their user, %s of products without an event in the warm-up, "+
		"%s of unknown products, %s of another type, %s of an instant that was asked already). %s answered by popularity for lack of a profile. "+
		"%s computed a second time from the whole vectors, and the same. Lines that are no event: %s; repeated ids: %s.",
		cli.Number(int64(left)), cli.Number(int64(l.Products)), cli.Number(int64(l.Met)), cli.Number(int64(l.First)), cli.Number(int64(l.Cold)),
		cli.Number(int64(l.Unknown)), cli.Number(int64(l.OtherType)), cli.Number(int64(l.SameInstant)), cli.Number(int64(r.NoProfile)), cli.Count(int64(r.Checked), "question"),
		cli.Number(int64(r.Log.Refused)), cli.Number(int64(r.Log.Repeats)))
}

// text prints the report.
func text(w *cli.Text, r *evaluation.Report, lexical bool) {
	for _, line := range head(r, lexical) {
		w.Line("%s", line)
	}
	for _, t := range tables(r) {
		w.Line("")
		w.Line("%s", t.Title)
		w.Table(t.Head, t.Rows)
	}
	w.Line("")
	w.Line("%s", leftOut(r))
}
