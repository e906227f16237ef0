package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"
)

// Size of a plot, in CSS pixels, and of a sparkline. A plot has its axis to the left.
const (
	plotW, plotH, axisW, timeH = 400, 132, 44, 16
	sparkW, sparkH             = 96, 20
)

// Plot is a small chart of lines over a span of time, from 0 upwards.
type Plot struct {
	ID     string // of the element; "": none
	Title  string
	Unit   string // behind each number
	From   time.Time
	Until  time.Time
	Times  []time.Time // of the values, ascending
	Series []Series    // without bands
	Marks  []time.Time // a vertical line at each
	Mark   string      // what they mark
}

// SVG draws the plot. A reader gets [Plot.Sentence] in place of it. Each group of a line has its
// values, which a script may read out.
func (p Plot) SVG() template.HTML {
	var all []float64
	for _, s := range p.Series {
		all = append(all, s.Values...)
	}
	high, step := scale(all)
	var w strings.Builder
	id := ""
	if p.ID != "" {
		id = fmt.Sprintf(` id="%s"`, html.EscapeString(p.ID))
	}
	fmt.Fprintf(&w, `<svg%s class="plot" viewBox="0 0 %d %d" role="img" aria-label="%s" data-axis="%d" data-from="%d" data-until="%d" data-times="%s" data-unit="%s">`,
		id, plotW, plotH, html.EscapeString(p.Sentence()), axisW, p.From.Unix(), p.Until.Unix(), p.times(), html.EscapeString(p.Unit))
	y := func(v float64) float64 { return 6 + float64(plotH-timeH-6)*(1-v/high) }
	for v := 0.0; v <= high+step/2; v += step {
		fmt.Fprintf(&w, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="label" x="%d" y="%.1f" text-anchor="end">%s</text>`,
			axisW, plotW, y(v), y(v), axisW-6, y(v)+4, brief(v))
	}
	for _, mark := range p.Marks {
		fmt.Fprintf(&w, `<line class="mark" x1="%.1f" x2="%.1f" y1="6" y2="%d"><title>%s</title></line>`, p.x(mark), p.x(mark), plotH-timeH, html.EscapeString(p.Mark))
	}
	for i, s := range p.Series {
		fmt.Fprintf(&w, `<g data-name="%s" data-values="%s">`, html.EscapeString(s.Name), values(s.Values))
		for _, run := range p.runs(s.Values, y) {
			fmt.Fprintf(&w, `<polyline class="line s%d" points="%s"/>`, i, run)
		}
		w.WriteString(`</g>`)
	}
	fmt.Fprintf(&w, `<text class="label" x="%d" y="%d">%s</text><text class="label" x="%d" y="%d" text-anchor="end">now</text></svg>`,
		axisW, plotH-2, html.EscapeString("-"+span(p.Until.Sub(p.From))), plotW, plotH-2)
	return template.HTML(w.String()) //nolint:gosec // all text in it is escaped above
}

// Sentence says what the plot shows: of each line the newest value and the span of all.
func (p Plot) Sentence() string {
	parts := make([]string, len(p.Series))
	for i, s := range p.Series {
		now, low, high := summary(s.Values)
		if math.IsNaN(now) {
			parts[i] = s.Name + " not known"
			continue
		}
		parts[i] = fmt.Sprintf("%s %s%s, between %s and %s", s.Name, Figure(now), p.Unit, Figure(low), Figure(high))
	}
	return fmt.Sprintf("%s over %s: %s", p.Title, span(p.Until.Sub(p.From)), strings.Join(parts, "; "))
}

// rows is how many spans of time a table has a row for, at most.
const rows = 24

// Table has the figures, a row for each minute, or longer where that would be too many rows: the
// last values in it.
func (p Plot) Table() Table {
	t := Table{Head: []string{"UTC"}}
	each, layout := time.Minute, "15:04:05"
	for _, longer := range []time.Duration{5 * time.Minute, time.Hour, 8 * time.Hour, 24 * time.Hour} {
		if p.Until.Sub(p.From) > rows*each {
			each = longer
		}
	}
	if each >= time.Hour {
		layout = "2 Jan 15:04"
	}
	for _, s := range p.Series {
		t.Head = append(t.Head, s.Name+p.Unit)
	}
	for i, at := range p.Times {
		if i+1 < len(p.Times) && p.Times[i+1].Truncate(each).Equal(at.Truncate(each)) {
			continue
		}
		row := []string{at.UTC().Format(layout)}
		for _, s := range p.Series {
			row = append(row, Figure(s.Values[i]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (p Plot) x(at time.Time) float64 {
	whole := p.Until.Sub(p.From).Seconds()
	if whole <= 0 {
		return plotW
	}
	return axisW + (plotW-axisW)*min(1, max(0, at.Sub(p.From).Seconds()/whole))
}

// runs returns the points of a line, cut where a value is not known. One value alone is a short line.
func (p Plot) runs(values []float64, y func(float64) float64) (runs []string) {
	var run []string
	end := func() {
		if len(run) == 1 {
			run = append(run, run[0])
		}
		if len(run) > 0 {
			runs = append(runs, strings.Join(run, " "))
		}
		run = nil
	}
	for i, v := range values {
		if !known(v) {
			end()
			continue
		}
		run = append(run, fmt.Sprintf("%.1f,%.1f", p.x(p.Times[i]), y(v)))
	}
	end()
	return runs
}

// times are seconds since the first one, behind the first in Unix seconds.
func (p Plot) times() string {
	texts := make([]string, len(p.Times))
	for i, at := range p.Times {
		texts[i] = fmt.Sprint(at.Unix() - p.Times[0].Unix())
		if i == 0 {
			texts[i] = fmt.Sprint(at.Unix())
		}
	}
	return strings.Join(texts, " ")
}

func values(all []float64) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = Figure(v)
	}
	return strings.Join(texts, " ")
}

// Spark draws a line without an axis. The text beside it says the newest value.
func Spark(series []float64) template.HTML {
	high, _ := scale(series)
	var points []string
	for i, v := range series {
		if known(v) {
			x := float64(sparkW)
			if n := len(series) - 1; n > 0 {
				x = sparkW * float64(i) / float64(n)
			}
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, 1+(sparkH-2)*(1-v/high)))
		}
	}
	if len(points) < 2 {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<svg class="spark" viewBox="0 0 %d %d" aria-hidden="true"><polyline class="line s0" points="%s"/></svg>`, //nolint:gosec // numbers
		sparkW, sparkH, strings.Join(points, " ")))
}

// scale returns the end of an axis from 0 that holds all values, and the step between its labels.
func scale(values []float64) (high, step float64) {
	for _, v := range values {
		if known(v) {
			high = max(high, v)
		}
	}
	step = niceStep(high / 3)
	return max(step, math.Ceil(high*1.04/step)*step), step // with room above
}

// known reports whether a value can be drawn: a program may tell an infinite one.
func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func summary(values []float64) (now, low, high float64) {
	now, low, high = math.NaN(), math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if known(v) {
			now, low, high = v, min(low, v), max(high, v)
		}
	}
	return now, low, high
}

// Figure writes a number as a person reads it, "-" for one that is not known: three digits of what
// is below 100, and whole numbers with their thousands apart above.
func Figure(v float64) string {
	switch {
	case !known(v):
		return "-"
	case math.Abs(v) < 10:
		return number(math.Round(v*100) / 100)
	case math.Abs(v) < 100:
		return number(math.Round(v*10) / 10)
	}
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// brief writes a number of an axis, which has little room.
func brief(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if v >= unit.size {
			if unit.name == "k" {
				return number(v/1e3) + "k"
			}
			return number(v/unit.size) + unit.name
		}
	}
	return Figure(v)
}

func span(d time.Duration) string {
	switch {
	case d > 48*time.Hour:
		return fmt.Sprintf("%d d", int(d.Round(24*time.Hour)/(24*time.Hour)))
	case d >= time.Hour:
		return fmt.Sprintf("%d h", int(d.Round(time.Hour)/time.Hour))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute)/time.Minute))
}
