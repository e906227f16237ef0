package dashboard

import (
	"cmp"
	"html/template"
	"math"
	"time"

	"keyfold/internal/chart"
	"keyfold/internal/cli"
	"keyfold/service/status"
	"keyfold/source/httpapi"
)

// Most of what one page lists: with all of it the page stays below 60 KB.
const (
	maxProblems = 20
	maxRows     = 25 // of a table
	maxNotes    = 10
)

// overview is the page that shows all in one look.
type overview struct {
	Fault     string // why nothing newer is seen; "": the last look is shown
	Problems  problems
	Seen      bool // a look has ended
	Figures   []figure
	Plots     []plot
	Spans     []choice // that the plots can be of
	PastFault string   // why there are no plots of the span
	Servers   []server
	Tables    []table
	Lines     []string // beside the tables
	Notes     []string // what could not be seen
	MoreNote  int
}

// figure is a number in large type.
type figure struct {
	Name, Value, Unit, Note string
	Spark                   template.HTML
}

// plot is a chart with its table.
type plot struct {
	ID, Title, Key string
	Lines          []string // names, in the order of their colours
	SVG            template.HTML
	Table          chart.Table
}

// server is one that was asked.
type server struct {
	status.Server
	State string // ok, wrong or off
}

// table is a part of the report, with what of it is not shown.
type table struct {
	ID string
	status.Table
	More int
	Link string // where all rows are, without the base
}

func (d *Dashboard) overview(r *httpapi.Request) *httpapi.Answer {
	seen := d.watch.current(r.Context())
	o := overviewOf(seen, d.manual)
	d.plotted(r, &o, seen)
	o.Problems = d.leadsToFailures(o.Problems)
	return d.page(r, "overview", "Overview", seen, o)
}

func overviewOf(seen *snapshot, m *manual) overview {
	o := overview{Fault: seen.Fault, Seen: seen.Report != nil}
	r := seen.Report
	if r == nil {
		o.Fault = cmp.Or(o.Fault, errFirstLook.Error())
		return o
	}
	o.Problems = problemsOf(seen, m, maxProblems)
	o.Figures = figuresOf(seen)
	for _, s := range r.Servers {
		state := "ok"
		switch {
		case !s.Used:
			state = "off"
		case s.Error != "":
			state = "wrong"
		}
		o.Servers = append(o.Servers, server{s, state})
	}
	for _, t := range []table{
		{ID: "queues", Table: r.QueueTable()},
		{ID: "outbox", Table: r.OutboxTable()},
		{ID: "streams", Table: r.StreamTable()},
		{ID: "processes", Table: r.ProcessTable(), Link: "/workers"},
	} {
		if len(t.Rows) > 0 {
			o.Tables = append(o.Tables, t.upTo(maxRows))
		}
	}
	for _, line := range []string{r.WorkersLine(), r.SecondVectorLine()} {
		if line != "" {
			o.Lines = append(o.Lines, line)
		}
	}
	n := min(maxNotes, len(r.Notes))
	o.Notes, o.MoreNote = r.Notes[:n], len(r.Notes)-n
	return o
}

// upTo cuts a table off.
func (t table) upTo(n int) table {
	t.More = max(0, len(t.Rows)-n)
	t.Rows = t.Rows[:len(t.Rows)-t.More]
	return t
}

// figuresOf returns the numbers of the last minute, with the 15 minutes before as a line.
func figuresOf(seen *snapshot) []figure {
	const minute = int(time.Minute / sampleEvery)
	all := seen.Samples
	now := sum(all[max(0, len(all)-minute):])
	line := func(of func(sample) float64) template.HTML {
		values := make([]float64, len(all))
		for i, s := range all {
			values[i] = of(s)
		}
		return chart.Spark(values)
	}
	figures := []figure{
		{Name: "Events in", Value: chart.Figure(now.rate(now.In)), Unit: "/s", Note: "a minute's mean", Spark: line(rateIn)},
		{Name: "Folded", Value: chart.Figure(now.rate(now.Folded)), Unit: "/s", Note: "into profiles", Spark: line(rateFolded)},
		{Name: "Writes saved", Value: percent(now.saved()), Unit: "%", Note: "against one per event"},
		{Name: "Age of profiles", Value: atMost(now.age(0.99)), Unit: "s", Note: "p99; p50 " + atMost(now.age(0.5)) + " s", Spark: line(func(s sample) float64 { return s.age(0.99) })},
		{Name: "Backlog", Value: chart.Figure(plus(now.Queued, 0)), Note: "wait in queues and streams", Spark: line(func(s sample) float64 { return s.Queued })},
	}
	if !math.IsNaN(now.Unsent) {
		figures = append(figures, figure{Name: "Outbox", Value: chart.Figure(now.Unsent), Note: "rows unsent", Spark: line(func(s sample) float64 { return s.Unsent })})
	}
	if !math.IsNaN(now.Decided) {
		figures = append(figures, figure{
			Name: "Decided", Value: chart.Figure(now.rate(now.Decided)), Unit: "/s", Note: "notifications",
			Spark: line(func(s sample) float64 { return s.rate(s.Decided) }),
		})
	}
	return figures
}

func atMost(seconds float64) string {
	if math.IsNaN(seconds) {
		return "-"
	}
	return "≤ " + chart.Figure(seconds)
}

// problems are those of a report, with the runbook's sections.
type problems struct {
	All  []problem
	More int
}

type problem struct {
	status.Problem
	ID      string
	For     string // how long looks have met it; "": it is new
	Section *section
	Link    string // of the page that shows it; "": there is none
	Open    bool   // the section is shown at once
}

func problemsOf(seen *snapshot, m *manual, most int) (found problems) {
	for i, p := range seen.Report.Problems {
		if i == most {
			found.More = len(seen.Report.Problems) - most
			break
		}
		key := problemKey(p)
		one := problem{Problem: p, ID: identifier("problem", key), Section: m.find(p.Runbook)}
		if age := seen.Report.At.Sub(seen.Since[key]); age >= time.Second && !seen.Since[key].IsZero() {
			one.For = cli.Age(age)
		}
		found.All = append(found.All, one)
	}
	return found
}
