package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Size of a chart, in CSS pixels, and what is left free for the axes.
const (
	width, height             = 640, 280
	left, right, top, bottom  = 56, 16, 16, 44
	plotWidth, plotHeight     = width - left - right, height - top - bottom
	charWidth, labelsPerChart = 7, 12
)

// Series is one line. Low and High are its band; nil where it has none. NaN leaves a gap.
type Series struct {
	Name      string
	Values    []float64
	Low, High []float64
	Dashed    bool
}

// Lines is a chart of lines over named places, evenly spaced.
type Lines struct {
	Title  string   // read out in place of the picture
	Unit   string   // behind each number of the axis
	Places []string // along the horizontal axis
	Axis   string   // what the places are
	Series []Series
}

// SVG draws the chart.
func (c Lines) SVG() template.HTML {
	var all []float64
	for _, s := range c.Series {
		all = append(append(append(all, s.Values...), s.Low...), s.High...)
	}
	d := newDrawing(c.Title, all)
	d.verticalAxis(c.Unit)
	d.places(c.Places, c.Axis)
	for i, s := range c.Series {
		d.band(s, i, len(c.Places))
	}
	for i, s := range c.Series {
		d.line(s, i, len(c.Places))
	}
	d.legend(c.Series)
	return d.end()
}

// Bar is one bar of a chart.
type Bar struct {
	Name  string
	Value float64
	Note  string // behind the number
}

// Bars is a chart of horizontal bars.
type Bars struct {
	Title string
	Unit  string
	Bars  []Bar
}

// SVG draws the chart.
func (c Bars) SVG() template.HTML {
	const row, labels = 24, 250
	most := 0.0
	for _, b := range c.Bars {
		most = max(most, b.Value)
	}
	var w strings.Builder
	open(&w, c.Title, row*len(c.Bars)+8)
	for i, b := range c.Bars {
		y, length := 4+row*i, 0.0
		if most > 0 {
			length = b.Value / most * (width - labels - 110)
		}
		fmt.Fprintf(&w, `<text class="label" x="%d" y="%d" text-anchor="end">%s</text>`, labels-8, y+16, html.EscapeString(b.Name))
		fmt.Fprintf(&w, `<rect class="bar" x="%d" y="%d" width="%.1f" height="%d"/>`, labels, y+3, max(1, length), row-7)
		fmt.Fprintf(&w, `<text class="label" x="%.1f" y="%d">%s</text>`, labels+length+6, y+16, html.EscapeString(strings.TrimSpace(number(b.Value)+c.Unit+" "+b.Note)))
	}
	w.WriteString("</svg>")
	return template.HTML(w.String()) //nolint:gosec // all text in it is escaped above
}

// drawing is a chart with a vertical axis at work.
type drawing struct {
	strings.Builder
	low, high, step float64
}

func open(w *strings.Builder, title string, height int) {
	fmt.Fprintf(w, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s" class="chart">`, width, height, html.EscapeString(title))
}

// newDrawing chooses an axis from 0 that holds all values.
func newDrawing(title string, values []float64) *drawing {
	d := &drawing{}
	for _, v := range values {
		if !math.IsNaN(v) {
			d.high, d.low = max(d.high, v), min(d.low, v)
		}
	}
	d.step = niceStep((d.high - d.low) / 4)
	d.high = math.Ceil(d.high/d.step) * d.step
	d.low = math.Floor(d.low/d.step) * d.step
	if d.high == d.low {
		d.high += d.step
	}
	open(&d.Builder, title, height)
	return d
}

// niceStep returns 1, 2 or 5 times a power of ten, at least step.
func niceStep(step float64) float64 {
	if !(step > 0) || math.IsInf(step, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= step {
			return n * power
		}
	}
	return 10 * power
}

func (d *drawing) y(v float64) float64 {
	return top + plotHeight*(1-(v-d.low)/(d.high-d.low))
}

func x(i, n int) float64 {
	if n < 2 {
		return left + plotWidth/2
	}
	return left + plotWidth*float64(i)/float64(n-1)
}

func number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", math.Round(v*1e4)/1e4), "0"), ".")
}

func (d *drawing) verticalAxis(unit string) {
	for i := 0; d.low+float64(i)*d.step <= d.high+d.step/2; i++ {
		v := d.low + float64(i)*d.step
		fmt.Fprintf(d, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, width-right, d.y(v), d.y(v))
		fmt.Fprintf(d, `<text class="label" x="%d" y="%.1f" text-anchor="end">%s</text>`, left-6, d.y(v)+4, number(v)+html.EscapeString(unit))
	}
}

// places writes the names below the axis, as many as there is room for.
func (d *drawing) places(names []string, axis string) {
	every := (len(names) + labelsPerChart - 1) / labelsPerChart
	for i, name := range names {
		if i%every > 0 {
			continue
		}
		anchor := "middle"
		if i > 0 && i == len(names)-1 { // it has no room to its right
			anchor = "end"
		}
		fmt.Fprintf(d, `<text class="label" x="%.1f" y="%d" text-anchor="%s">%s</text>`, x(i, len(names)), height-bottom+16, anchor, html.EscapeString(name))
	}
	fmt.Fprintf(d, `<text class="axis" x="%d" y="%d" text-anchor="middle">%s</text>`, left+plotWidth/2, height-8, html.EscapeString(axis))
}

func (d *drawing) band(s Series, index, n int) {
	if s.Low == nil {
		return
	}
	var path strings.Builder
	for i := range s.High {
		fmt.Fprintf(&path, "%.1f,%.1f ", x(i, n), d.y(s.High[i]))
	}
	for i := len(s.Low) - 1; i >= 0; i-- {
		fmt.Fprintf(&path, "%.1f,%.1f ", x(i, n), d.y(s.Low[i]))
	}
	fmt.Fprintf(d, `<polygon class="band s%d" points="%s"/>`, index, strings.TrimSpace(path.String()))
}

// mostDots is how many points a line shows as dots.
const mostDots = 20

func (d *drawing) line(s Series, index, n int) {
	class := fmt.Sprintf("line s%d", index)
	if s.Dashed {
		class += " dashed"
	}
	var points strings.Builder
	for i, v := range s.Values {
		if math.IsNaN(v) {
			continue
		}
		fmt.Fprintf(&points, "%.1f,%.1f ", x(i, n), d.y(v))
		if !s.Dashed && n <= mostDots {
			fmt.Fprintf(d, `<circle class="dot s%d" cx="%.1f" cy="%.1f" r="3"/>`, index, x(i, n), d.y(v))
		}
	}
	fmt.Fprintf(d, `<polyline class="%s" points="%s"/>`, class, strings.TrimSpace(points.String()))
}

// legend names the lines in the upper right corner, where a falling curve leaves room, or in
// the left one where only that is free.
func (d *drawing) legend(series []Series) {
	longest := 0
	for _, s := range series {
		longest = max(longest, len(s.Name))
	}
	room := 28 + charWidth*longest
	at := width - right - charWidth*longest
	if d.crosses(series, width-right-room, width) && !d.crosses(series, 0, left+room) {
		at = left + 28
	}
	fmt.Fprintf(d, `<rect class="legend" x="%d" y="%d" width="%d" height="%d"/>`, at-28, top, room, 16*len(series))
	for i, s := range series {
		y := top + 10 + 16*i
		fmt.Fprintf(d, `<line class="line s%d" x1="%d" x2="%d" y1="%d" y2="%d"/>`, i, at-24, at-6, y-4, y-4)
		fmt.Fprintf(d, `<text class="label" x="%d" y="%d">%s</text>`, at, y, html.EscapeString(s.Name))
	}
}

// crosses reports whether a line has a point as high as the legend between two x.
func (d *drawing) crosses(series []Series, from, to int) bool {
	for _, s := range series {
		for i, v := range s.Values {
			if at := x(i, len(s.Values)); at >= float64(from) && at <= float64(to) && d.y(v) < float64(top+16*len(series)+8) {
				return true
			}
		}
	}
	return false
}

func (d *drawing) end() template.HTML {
	d.WriteString("</svg>")
	return template.HTML(d.String()) //nolint:gosec // all text in it is escaped above
}
