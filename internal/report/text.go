package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"keyfold/internal/cli"
)

// coordinated says what latencies count from.
const coordinated = "latencies count from when an event was due, so that they hold what a generator that was held up did not ask for (no coordinated omission)"

// amount writes a number for people.
func amount(v float64) string {
	if math.Abs(v) >= 1000 || v == math.Trunc(v) {
		return cli.Number(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// mark stands behind what other programs may have disturbed.
func mark(text string, disturbed bool) string {
	if disturbed {
		return text + "*"
	}
	return text
}

func (f *Figure) text() string {
	text := mark(strings.TrimSpace(amount(f.Median)+" "+f.Unit), f.Disturbed)
	if len(f.Runs) == 1 {
		return text
	}
	runs := make([]string, len(f.Runs))
	for i, v := range f.Runs {
		runs[i] = amount(v)
	}
	return text + " (" + strings.Join(runs, ", ") + ")"
}

// table has a row for each thing that the figures or latencies are of.
type table struct {
	head []string
	rows [][]string
}

// tables are the figures: those of the scenario one below the other, then a row for each part.
// Parts with the same figures share a table.
func (r *Report) tables() (all []table) {
	var parts []string
	for _, f := range r.Figures {
		if !slices.Contains(parts, f.Of) {
			parts = append(parts, f.Of)
		}
	}
	for _, part := range parts {
		t := table{head: []string{"part"}, rows: [][]string{{part}}}
		for _, f := range r.Figures {
			switch {
			case f.Of != part:
			case part == "":
				t.rows = append(t.rows, []string{f.Name, f.text()})
			default:
				t.head, t.rows[0] = append(t.head, f.Name), append(t.rows[0], f.text())
			}
		}
		if part == "" {
			t.head, t.rows = []string{"figure", "median (runs)"}, t.rows[1:]
		}
		if n := len(all); n > 0 && slices.Equal(all[n-1].head, t.head) {
			all[n-1].rows = append(all[n-1].rows, t.rows...)
		} else {
			all = append(all, t)
		}
	}
	return all
}

func (r *Report) latencies() table {
	t := table{head: []string{"latency", "p50", "p95", "p99", "p99.9", "max", "count"}}
	for _, l := range r.Latencies {
		row := []string{l.Name}
		for _, seconds := range []float64{l.P50, l.P95, l.P99, l.P999, l.Max} {
			text := "-" // nothing was counted
			if l.Count > 0 {
				text = mark(Span(seconds), l.Disturbed)
			}
			row = append(row, text)
		}
		t.rows = append(t.rows, append(row, cli.Number(l.Count)))
	}
	return t
}

func (r *Report) verdicts() table {
	t := table{head: []string{"criterion", "verdict", "target", "seen"}}
	for _, v := range r.Verdicts {
		result := v.Result
		if v.Why != "" {
			result += ": " + v.Why
		}
		t.rows = append(t.rows, []string{v.ID, result, v.Target, v.Seen})
	}
	return t
}

// head are the sentences above the figures.
func (r *Report) head() (lines []string) {
	lines = append(lines, r.Machine.String(), named(r.Versions), named(r.Settings))
	if r.Disturbed {
		lines = append(lines, fmt.Sprintf("* disturbed: the load average was above %d for each core at the start: other programs were at work, and no verdict is given", busyLoad))
	}
	return slices.DeleteFunc(append(lines, r.Notes...), func(line string) bool { return line == "" })
}

func named(all []Named) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = n.Name + " " + n.Value
	}
	return strings.Join(texts, "; ")
}

// Text prints the report.
func (r *Report) Text(w *cli.Text) {
	w.Line("%s, %s", r.Scenario, cli.At(r.Started))
	for _, line := range r.head() {
		w.Line("%s", line)
	}
	for _, t := range append(r.tables(), r.latencies()) {
		if len(t.rows) > 0 {
			w.Line("")
			w.Table(t.head, t.rows)
		}
	}
	if len(r.Latencies) > 0 {
		w.Line("%s", coordinated)
	}
	w.Line("")
	left := map[string][]string{}
	for _, v := range r.Verdicts {
		if v.Result == NotMeasured {
			left[v.Why] = append(left[v.Why], v.ID)
		} else {
			w.Line("%s %s: %s; seen: %s", v.ID, v.Result, v.Target, v.Seen)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		w.Line("%s: %s: %s", strings.Join(left[why], ", "), NotMeasured, why)
	}
	for _, miss := range r.Missed {
		w.Line("missed: %s", miss)
	}
	w.Line("repeat: %s", r.Repeat)
}
