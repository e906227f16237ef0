package chart

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// plotOf has a value each 10 s, the last at noon.
func plotOf(names []string, series ...[]float64) Plot {
	p := Plot{ID: "plot", Title: "Events", Unit: "/s", From: noon.Add(-15 * time.Minute), Until: noon, Mark: "a process began anew"}
	n := 0
	for i, values := range series {
		p.Series = append(p.Series, Series{Name: names[i], Values: values})
		n = max(n, len(values))
	}
	for i := range n {
		p.Times = append(p.Times, noon.Add(time.Duration(i-n+1)*10*time.Second))
	}
	return p
}

var numbers = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?`)

// Every plot is a picture that a browser can draw, all of it within its frame.
func TestPlotsAreWellFormedWhateverTheValues(t *testing.T) {
	inf := math.Inf(1)
	for _, values := range [][]float64{
		nil, {0}, {7}, {0, 0, 0}, {1e-9, 2e-9}, {12.5, math.NaN(), 300}, {math.NaN(), math.NaN()}, {3, inf, 4}, {inf, -inf}, {1e15, 1}, slices.Repeat([]float64{1, 2}, 45),
	} {
		p := plotOf([]string{`a<b&"c"`, "\u202e]]>"}, values, values)
		p.ID, p.Title, p.Unit, p.Mark = `x" onload="alert(1)`, "<script>", `" & <`, "</title><script>"
		p.Marks = []time.Time{noon.Add(-time.Minute), noon.Add(time.Hour), time.Unix(0, 0)}
		svg := p.SVG()
		wellFormed(t, svg)
		wellFormed(t, Spark(values))
		if strings.Contains(string(svg), "<script") || strings.Contains(string(svg), `onload="`) {
			t.Errorf("%v: markup of a name is in %s", values, svg)
		}
		for _, points := range regexp.MustCompile(`points="([^"]*)"`).FindAllStringSubmatch(string(svg), -1) {
			for i, n := range numbers.FindAllString(points[1], -1) {
				v, err := strconv.ParseFloat(n, 64)
				if most := []float64{plotW, plotH}[i%2]; err != nil || v < 0 || v > most {
					t.Errorf("%v: %s is outside: %s", values, n, points[1])
				}
			}
		}
	}
	p := plotOf([]string{"a"}, []float64{1, 2})
	p.From = p.Until // no time has passed
	wellFormed(t, p.SVG())
}

// What is not known is a gap, and a value between two gaps is seen all the same.
func TestPlotLeavesGaps(t *testing.T) {
	nan := math.NaN()
	svg := string(plotOf([]string{"in"}, []float64{1, 2, nan, 5, nan, nan, 3, 4}).SVG())
	var lengths []int
	for _, line := range regexp.MustCompile(`<polyline class="line s0" points="([^"]*)"`).FindAllStringSubmatch(svg, -1) {
		lengths = append(lengths, len(strings.Fields(line[1])))
	}
	if !slices.Equal(lengths, []int{2, 2, 2}) {
		t.Errorf("lines of %v points", lengths)
	}
}

// What a script reads out is as long for each line as there are times, and the times add up to the last.
func TestPlotIsReadOut(t *testing.T) {
	svg := string(plotOf([]string{"in", "folded"}, []float64{1, 2500, math.NaN()}, []float64{0.5, 99.96, 3}).SVG())
	attribute := func(name string) []string {
		found := regexp.MustCompile(name+`="([^"]*)"`).FindAllStringSubmatch(svg, -1)
		all := make([]string, len(found))
		for i := range found {
			all[i] = found[i][1]
		}
		return all
	}
	times := strings.Fields(attribute("data-times")[0])
	if want := []string{strconv.FormatInt(noon.Unix()-20, 10), "10", "20"}; !slices.Equal(times, want) {
		t.Errorf("the times are %q, want %q", times, want)
	}
	if from, until := attribute("data-from")[0], attribute("data-until")[0]; from != strconv.FormatInt(noon.Add(-15*time.Minute).Unix(), 10) || until != strconv.FormatInt(noon.Unix(), 10) {
		t.Errorf("from %s until %s", from, until)
	}
	if values := attribute("data-values"); !slices.Equal(values, []string{"1 2,500 -", "0.5 100 3"}) {
		t.Errorf("the values are %q", values)
	}
	if names := attribute("data-name"); !slices.Equal(names, []string{"in", "folded"}) {
		t.Errorf("the names are %q", names)
	}
}

func TestPlotMarks(t *testing.T) {
	p := plotOf([]string{"in"}, []float64{1, 2})
	p.Marks = []time.Time{p.From, noon}
	svg := string(p.SVG())
	for _, want := range []string{
		fmt.Sprintf(`<line class="mark" x1="%d.0"`, axisW), fmt.Sprintf(`<line class="mark" x1="%d.0"`, plotW), "<title>a process began anew</title>", ">-15 min<",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
}

// People who do not see the plot are told its figures.
func TestPlotSentence(t *testing.T) {
	nan := math.NaN()
	for want, p := range map[string]Plot{
		"Events over 15 min: in 3/s, between 1 and 1,200; folded not known": plotOf([]string{"in", "folded"}, []float64{1, 1200, 3}, []float64{nan, nan, nan}),
		"Events over 15 min: in 2/s, between 2 and 5":                       plotOf([]string{"in"}, []float64{5, 2, nan}),
		"Events over 15 min: in 4/s, between 4 and 4":                       plotOf([]string{"in"}, []float64{4, math.Inf(1)}),
		"Events over 15 min: ":                                              plotOf(nil),
	} {
		if got := p.Sentence(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The table has the last values of each minute, in UTC.
func TestPlotTable(t *testing.T) {
	values := make([]float64, 15) // 11:57:40 to 12:00:00
	for i := range values {
		values[i] = float64(i)
	}
	values[14] = math.NaN()
	p := plotOf([]string{"in"}, values)
	for i := range p.Times {
		p.Times[i] = p.Times[i].In(time.FixedZone("elsewhere", 5*3600))
	}
	got := p.Table()
	want := [][]string{{"11:57:50", "1"}, {"11:58:50", "7"}, {"11:59:50", "13"}, {"12:00:00", "-"}}
	if !slices.Equal(got.Head, []string{"UTC", "in/s"}) || !slices.EqualFunc(got.Rows, want, slices.Equal) {
		t.Errorf("%q %q", got.Head, got.Rows)
	}
}

func TestSparks(t *testing.T) {
	for points, values := range map[string][]float64{
		"": {5}, "0.0,": {1, 2}, "96.0,": {1, math.NaN(), 2},
	} {
		svg := string(Spark(values))
		if (svg == "") != (points == "") || !strings.Contains(svg, points) {
			t.Errorf("%v: no %q in %q", values, points, svg)
		}
	}
	if svg := Spark([]float64{math.NaN(), math.Inf(1), 3}); svg != "" {
		t.Errorf("of one value: %s", svg)
	}
}

func TestFiguresAsAPersonReadsThem(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "0", 0.126: "0.13", 9.994: "9.99", 12.34: "12.3", 99.94: "99.9", 100: "100", 999.6: "1,000", 1234567: "1,234,567",
		-5.5: "-5.5", -123456: "-123,456", math.Inf(1): "-", math.Inf(-1): "-",
	} {
		if got := Figure(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := Figure(math.NaN()); got != "-" {
		t.Errorf("what is not known is %q", got)
	}
	for v, want := range map[float64]string{0: "0", 2500: "2,500", 20_000: "20k", 1_500_000: "1.5M", 2e9: "2G"} {
		if got := brief(v); got != want {
			t.Errorf("on the axis %v is %q, want %q", v, got, want)
		}
	}
}

// An axis ends above all values, on a label.
func TestAxisOfAPlot(t *testing.T) {
	for _, values := range [][]float64{{0}, {3}, {99}, {100}, {1e-6}, {7e9}, {math.NaN()}, {5, math.Inf(1)}} {
		high, step := scale(values)
		steps := high / step
		if !(high > 0) || math.Abs(steps-math.Round(steps)) > 1e-6 || steps > 6 {
			t.Errorf("%v: to %v by %v", values, high, step)
		}
		for _, v := range values {
			if v >= high && !math.IsInf(v, 0) {
				t.Errorf("%v is above %v", v, high)
			}
		}
	}
}

func TestCells(t *testing.T) {
	c := Cells{Title: `<"free">`}
	for i := range 20 {
		c.Cells = append(c.Cells, Cell{Name: fmt.Sprint(i), Mark: `A&"`, Hue: i})
	}
	c.Cells[3].Mark = ""
	svg := string(c.SVG())
	wellFormed(t, c.SVG())
	wellFormed(t, Cells{}.SVG())
	if n := strings.Count(svg, "<rect"); n != 20 || !strings.Contains(svg, `width="320" height="72"`) {
		t.Errorf("%d cells in %s", n, svg)
	}
	if strings.Count(svg, `class="grid"`) != 1 || strings.Count(svg, `class="s3"`) != 4 || !strings.Contains(svg, `>3</text>`) { // 7, 11, 15 and 19
		t.Errorf("what belongs to none: %s", svg)
	}
}
