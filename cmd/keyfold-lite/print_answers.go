package main

import (
	"fmt"

	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/service/profile/answers"
)

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func bounds(i eval.Interval) string { return fmt.Sprintf("[%+.4f %+.4f]", i.Low, i.High) }

// printAnswers prints a report as text.
func printAnswers(w *cli.Text, r *answers.Report) {
	w.Line("%s of %s; vectors %s. Asked from %s on: %s of %s, %s.", cli.Count(int64(r.Log.Events), "event"), cli.Count(int64(r.Log.Users), "user"),
		r.Vectors, cli.At(r.Log.Test), cli.Count(int64(r.Questions), "question"), cli.Count(int64(r.Users), "user"), cli.Count(int64(r.Candidates), "candidate"))
	if r.Sample < 1 {
		w.Line("Only %.2g %% of the users are asked, for the time it takes: --users 1 asks all.", 100*r.Sample)
	}
	profiles := "Profiles hold events at least " + r.Age + " old"
	if r.Second != "" {
		profiles += ", and a second vector with a half-life of " + r.Second
	}
	w.Line("%s. Each request is for %d products that the user has not met.", profiles, r.K)
	for _, c := range r.Comparisons {
		w.Line("%s", sentence(r, c))
	}
	w.Line("")
	printAnswerRows(w, r)
	w.Line("")
	printDifferences(w, r)
	w.Line("")
	for _, row := range r.Rows {
		if e := row.Endpoint; e != nil {
			w.Line("%s", requests(row.Name, e))
		}
	}
	l := r.LeftOut
	w.Line("Left out of %s product events: %s met before, %s first of their user, %s of products without an event in the warm-up, %s of unknown products, "+
		"%s of another type, %s of an instant that was asked already. Lines that are no event: %s; repeated ids: %s.",
		cli.Number(int64(l.Products)), cli.Number(int64(l.Met)), cli.Number(int64(l.First)), cli.Number(int64(l.Cold)), cli.Number(int64(l.Unknown)),
		cli.Number(int64(l.OtherType)), cli.Number(int64(l.SameInstant)), cli.Number(int64(r.Log.Refused)), cli.Number(int64(r.Log.Repeats)))
}

// sentence says where a kind of request is better, worse or neither.
func sentence(r *answers.Report, c answers.Comparison) string {
	found := fmt.Sprintf("The %s finds %s, %s %s", c.Endpoint, percent(r.Row(c.Endpoint).HR), c.Baseline, percent(r.Row(c.Baseline).HR))
	between := fmt.Sprintf("%+.1f to %+.1f points", 100*c.HR.Low, 100*c.HR.High)
	switch c.Verdict {
	case answers.Better:
		return fmt.Sprintf("%s: it is better (%s).", found, between)
	case answers.Worse:
		return fmt.Sprintf("%s: it is worse (%s).", found, between)
	}
	return fmt.Sprintf("%s: not different (%s).", found, between)
}

func printAnswerRows(w *cli.Text, r *answers.Report) {
	k := fmt.Sprint(r.K)
	var rows [][]string
	for _, row := range r.Rows {
		coverage := ""
		if row.Coverage > 0 {
			coverage = percent(row.Coverage)
		}
		rows = append(rows, []string{
			row.Name, fmt.Sprintf("%.4f", row.HR), fmt.Sprintf("[%.4f %.4f]", row.Interval.Low, row.Interval.High),
			fmt.Sprintf("%.4f", row.NDCG), fmt.Sprintf("%.4f", row.MRR), coverage,
		})
	}
	w.Table([]string{"answers", "HR@" + k, "95 %", "nDCG@" + k, "MRR@" + k, "coverage"}, rows)
}

func printDifferences(w *cli.Text, r *answers.Report) {
	k := fmt.Sprint(r.K)
	var rows [][]string
	for _, c := range r.Comparisons {
		rows = append(rows, []string{c.Endpoint, c.Baseline, bounds(c.HR), bounds(c.NDCG), c.Verdict})
	}
	w.Table([]string{"answers", "less", "95 % of HR@" + k, "95 % of nDCG@" + k, "by HR@" + k}, rows)
}

// requests says how the requests went.
func requests(name string, e *answers.Endpoint) string {
	line := fmt.Sprintf("%s: %s by profiles, %s by popularity; half of them within %.2f ms, 99 %% within %.2f ms.", name,
		cli.Count(int64(e.ByProfile), "answer"), cli.Number(int64(e.ByPopularity)), e.P50, e.P99)
	switch {
	case e.Compared == 0:
	case e.Differ == 0:
		line += fmt.Sprintf(" Of those by profiles %s were computed a second way, and the same but for ties.", cli.Number(int64(e.Compared)))
	default:
		line += fmt.Sprintf(" Of %s that were computed a second way %s differ: please report this.", cli.Number(int64(e.Compared)), cli.Number(int64(e.Differ)))
	}
	return line
}
