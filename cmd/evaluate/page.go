package evaluate

import (
	"fmt"
	"html/template"

	"keyfold/engine/profile/eval"
	"keyfold/internal/chart"
	"keyfold/service/profile/evaluation"
)

// page is the report with plots.
func page(r *evaluation.Report, lexical bool) chart.Page {
	p := chart.Page{Title: "What a fresh profile finds in this log", Lead: append(head(r, lexical), leftOut(r))}
	all := tables(r)
	if len(r.Ages) > 0 {
		p.Sections = append(p.Sections, chart.Section{
			Title: "Freshness", Text: "How often the user's next product is among the first, by how old the newest event in the profile is.",
			Chart: freshness(r), Table: pageTable(all[1]),
		})
	}
	p.Sections = append(p.Sections, chart.Section{
		Title: "Half-lives", Text: "The band holds 95 of 100 draws of the users.", Chart: halfLives(r), Table: pageTable(all[0]),
	})
	if len(r.Windows) > 0 {
		p.Sections = append(p.Sections, chart.Section{Title: "Windows", Text: all[2].Title + ".", Chart: windows(r), Table: pageTable(all[2])})
	}
	last := all[len(all)-1]
	p.Sections = append(p.Sections, chart.Section{Title: "Kinds of questions", Text: last.Title + ".", Chart: kinds(r), Table: pageTable(last)})
	return p
}

func pageTable(t table) *chart.Table { return &chart.Table{Head: t.Head, Rows: t.Rows} }

// level is a line of one height.
func level(name string, value float64, n int) chart.Series {
	s := chart.Series{Name: name, Dashed: true}
	for range n {
		s.Values = append(s.Values, 100*value)
	}
	return s
}

func freshness(r *evaluation.Report) template.HTML {
	own := chart.Series{Name: r.Current}
	mixed := chart.Series{Name: r.Mix}
	c := chart.Lines{Title: "Hits by the age of the profile", Unit: " %", Axis: "age of the newest event in the profile"}
	for _, a := range r.Ages {
		c.Places = append(c.Places, a.Name)
		own.Values, own.Low, own.High = append(own.Values, 100*a.Current), append(own.Low, 100*a.Band.Low), append(own.High, 100*a.Band.High)
		mixed.Values = append(mixed.Values, 100*a.Mixed)
	}
	c.Series = []chart.Series{own}
	if r.Mix != "" {
		c.Series = append(c.Series, mixed)
	}
	c.Series = append(c.Series, level("popularity", r.Row(eval.Popularity).Test.HR, len(c.Places)))
	return c.SVG()
}

func halfLives(r *evaluation.Report) template.HTML {
	c := chart.Lines{Title: "Hits by half-life", Unit: " %", Axis: "half-life"}
	s := chart.Series{Name: "profile"}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Kind == "half-life" {
			c.Places = append(c.Places, row.Name)
			s.Values, s.Low, s.High = append(s.Values, 100*row.Test.HR), append(s.Low, 100*row.Interval.Low), append(s.High, 100*row.Interval.High)
		}
	}
	c.Series = []chart.Series{s, level("popularity", r.Row(eval.Popularity).Test.HR, len(c.Places)), level("chance", r.Row(eval.Random).Test.HR, len(c.Places))}
	return c.SVG()
}

func windows(r *evaluation.Report) template.HTML {
	c := chart.Lines{Title: "Hits and writes by length of the windows", Unit: " %", Axis: "longest window"}
	hits, writes := chart.Series{Name: "hits"}, chart.Series{Name: "writes per event"}
	for _, w := range r.Windows {
		c.Places = append(c.Places, fmt.Sprintf("%gs", w.Most))
		hits.Values, writes.Values = append(hits.Values, 100*w.Current), append(writes.Values, 100*w.Writes)
	}
	c.Series = []chart.Series{hits, writes}
	return c.SVG()
}

func kinds(r *evaluation.Report) template.HTML {
	c := chart.Bars{Title: "Hits by kind of question", Unit: " %"}
	own := r.Row(r.Current)
	for i, g := range r.Groups {
		if g.Questions > 0 {
			c.Bars = append(c.Bars, chart.Bar{Name: g.By + ": " + g.Name, Value: 100 * own.Groups[i], Note: fmt.Sprintf("of %d", g.Questions)})
		}
	}
	return c.SVG()
}
