package evaluate

import (
	"fmt"

	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/service/profile/evaluation"
)

// table is a table of the report.
type table struct {
	Title string
	Head  []string
	Rows  [][]string
}

func share(x float64) string { return fmt.Sprintf("%.4f", x) }

func interval(i eval.Interval) string { return fmt.Sprintf("[%+.4f %+.4f]", i.Low, i.High) }

// tables are those of the report, as text and as a page show them.
func tables(r *evaluation.Report) (all []table) {
	k := fmt.Sprint(r.Cutoff)
	rows := table{
		Title: fmt.Sprintf("Test part: %s, %s of %s, %s", r.Held, cli.Count(int64(r.Questions), "question"), cli.Count(int64(r.Users), "user"), cli.Count(int64(r.Candidates), "candidate")),
		Head:  []string{"setting", "HR@" + k, "nDCG@" + k, "MRR@100", "HR@100", "HR@" + k + " of users", "95 % of HR@" + k, "to " + r.Current, "coverage", "remark"},
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		note := ""
		if row.TooShort {
			note = "log too short"
		}
		m := row.Test
		rows.Rows = append(rows.Rows, []string{
			row.Name, share(m.HR), share(m.NDCG), share(m.MRR), share(m.HR100), share(m.HROfUsers),
			fmt.Sprintf("[%.4f %.4f]", row.Interval.Low, row.Interval.High), interval(row.Difference), coverage(row), note,
		})
	}
	all = append(all, rows)
	if len(r.Ages) > 0 {
		t := table{Title: "Freshness: HR@" + k + " by the age of the newest event in the profile", Head: []string{"age", r.Current, "95 %"}}
		for _, a := range r.Ages {
			t.Rows = append(t.Rows, []string{a.Name, share(a.Current), fmt.Sprintf("[%.4f %.4f]", a.Band.Low, a.Band.High)})
		}
		all = append(all, t.mixed(r, func(i int) float64 { return r.Ages[i].Mixed }))
	}
	if len(r.Windows) > 0 {
		t := table{Title: "Windows: what they save and what they cost", Head: []string{"window", "writes per event", "HR@" + k + " " + r.Current}}
		for _, w := range r.Windows {
			t.Rows = append(t.Rows, []string{w.Name, fmt.Sprintf("%.3f", w.Writes), share(w.Current)})
		}
		all = append(all, t.mixed(r, func(i int) float64 { return r.Windows[i].Mixed }))
	}
	return append(all, groups(r))
}

// mixed adds a column of the mix, where there is one.
func (t table) mixed(r *evaluation.Report, of func(row int) float64) table {
	if r.Mix == "" {
		return t
	}
	t.Head = append(t.Head, r.Mix)
	for i := range t.Rows {
		t.Rows[i] = append(t.Rows[i], share(of(i)))
	}
	return t
}

// groups compares popularity, the current setting and the best mix by kind of question.
func groups(r *evaluation.Report) table {
	compared := []*evaluation.Row{r.Row(eval.Popularity), r.Row(r.Current)}
	var best *evaluation.Row
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Kind == "mix" && (best == nil || row.Test.HR > best.Test.HR) {
			best = row
		}
	}
	if best != nil {
		compared = append(compared, best)
	}
	t := table{Title: fmt.Sprintf("By pause before the question, by activity of the user, and by type: HR@%d", r.Cutoff), Head: []string{"kind", "questions"}}
	for _, row := range compared {
		t.Head = append(t.Head, row.Name)
	}
	for i, g := range r.Groups {
		if g.Questions == 0 {
			continue
		}
		cells := []string{g.By + ": " + g.Name, cli.Number(int64(g.Questions))}
		for _, row := range compared {
			cells = append(cells, share(row.Groups[i]))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// coverage is empty where it was not counted.
func coverage(row *evaluation.Row) string {
	if row.Coverage == 0 {
		return ""
	}
	return percent(row.Coverage)
}
