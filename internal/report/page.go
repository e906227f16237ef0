package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"keyfold/internal/chart"
)

// page is the report with plots.
func (r *Report) page() chart.Page {
	p := chart.Page{Title: "keyfold measured: " + r.Scenario, Lead: append(r.head(), "Repeat: "+r.Repeat)}
	section := func(title, text string, t table, plot template.HTML) {
		p.Sections = append(p.Sections, chart.Section{Title: title, Text: text, Chart: plot, Table: &chart.Table{Head: t.head, Rows: t.rows}})
	}
	section("Success criteria", "", r.verdicts(), "")
	for _, t := range r.tables() {
		section("Figures", "", t, "")
	}
	if len(r.Latencies) > 0 {
		section("Latencies", coordinated+".", r.latencies(), r.percentiles())
	}
	for i, s := range r.Series {
		if slices.IndexFunc(r.Series, func(o *Series) bool { return o.Name == s.Name }) < i {
			continue // it is in the plot of the first one
		}
		for _, plot := range r.plots(s.Name) {
			p.Sections = append(p.Sections, chart.Section{Title: "Over time: " + s.Name, Chart: plot})
		}
	}
	return p
}

// perPlot is how many lines a plot has colours for.
const perPlot = 5

func (r *Report) percentiles() template.HTML {
	c := chart.Lines{Title: "Latencies by percentile", Unit: " s", Axis: "percentile"}
	for _, p := range percents {
		c.Places = append(c.Places, fmt.Sprintf("%g", p))
	}
	for _, l := range r.Latencies[:min(perPlot, len(r.Latencies))] {
		c.Series = append(c.Series, chart.Series{Name: l.Name, Values: l.Percentiles})
	}
	return c.SVG()
}

// points is how many a line has at most; of those that fall together, the highest is drawn.
const points = 100

// plots draws the series of a name over time.
func (r *Report) plots(name string) (all []template.HTML) {
	var of []*Series
	begin, end := math.Inf(1), 1.0
	for _, s := range r.Series {
		begin, end = min(begin, s.Seconds[0]), max(end, s.Seconds[len(s.Seconds)-1]) // one axis for all plots
		if s.Name == name {
			of = append(of, s)
		}
	}
	begin = math.Floor(begin)
	end -= begin
	step := max(1, math.Ceil(end/points))
	for some := range slices.Chunk(of, perPlot) {
		c := chart.Lines{Title: name, Axis: "seconds since the first look, " + some[0].Unit}
		for at := 0.0; at <= end; at += step {
			c.Places = append(c.Places, fmt.Sprintf("%g", at))
		}
		for _, s := range some {
			values := slices.Repeat([]float64{math.NaN()}, len(c.Places))
			for i, second := range s.Seconds {
				place := min(int((second-begin)/step), len(values)-1)
				if v := s.Values[i]; !(values[place] >= v) {
					values[place] = v
				}
			}
			c.Series = append(c.Series, chart.Series{Name: s.Of, Values: values})
		}
		all = append(all, c.SVG())
	}
	return all
}
