package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"math"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// wellFormed fails where the SVG is no XML, or has a number that is none.
func wellFormed(t *testing.T, svg template.HTML) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
	for _, bad := range []string{"NaN", "Inf"} {
		if strings.Contains(string(svg), bad) {
			t.Errorf("%s in %s", bad, svg)
		}
	}
}

func TestChartsAreWellFormedWhateverTheValues(t *testing.T) {
	for _, values := range [][]float64{nil, {0}, {0, 0, 0}, {1e-9, 2e-9}, {12.5, 300, math.NaN(), -4}, {1e12, 1}} {
		places := make([]string, len(values))
		for i := range places {
			places[i] = "a<b&"
		}
		wellFormed(t, Lines{Title: `"<x>`, Unit: " %", Places: places, Axis: "<y>", Series: []Series{{Name: "a&b", Values: values}, {Name: "level", Values: values, Dashed: true}}}.SVG())
		var bars []Bar
		for _, v := range values {
			if !math.IsNaN(v) {
				bars = append(bars, Bar{Name: "<b>", Value: max(0, v), Note: "n"})
			}
		}
		wellFormed(t, Bars{Title: "bars", Bars: bars}.SVG())
	}
}

func TestBandsLieBehindTheirLine(t *testing.T) {
	svg := string(Lines{Places: []string{"a", "b"}, Series: []Series{{Name: "s", Values: []float64{1, 2}, Low: []float64{0.5, 1.5}, High: []float64{1.5, 2.5}}}}.SVG())
	if band, line := strings.Index(svg, `class="band s0"`), strings.Index(svg, `class="line s0" points`); band < 0 || line < band {
		t.Errorf("band at %d, line at %d: %s", band, line, svg)
	}
}

func TestAxisStepsAreRound(t *testing.T) {
	for step, want := range map[float64]float64{0.0123: 0.02, 0.9: 1, 3: 5, 70: 100, 0: 1} {
		if got := niceStep(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %v: %v, want %v", step, got, want)
		}
	}
}

// A page asks nothing of a network and escapes its texts.
func TestPageIsSelfContained(t *testing.T) {
	var w bytes.Buffer
	p := Page{Title: "<script>alert(1)</script>", Lead: []string{"a & b"}, Sections: []Section{{
		Title: "t", Text: "x", Chart: Bars{}.SVG(), Table: &Table{Head: []string{"h"}, Rows: [][]string{{"<i>"}}},
	}}}
	must.OK(t, p.Write(&w))
	for _, bad := range []string{"<script", "http:", "https:", "src=", "@import", "<i>"} {
		if strings.Contains(w.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// The legend stands where no line is: right of a falling one, left of a rising one.
func TestLegendLeavesLinesFree(t *testing.T) {
	legend := func(values ...float64) string {
		svg := string(Lines{Title: "t", Places: []string{"a", "b", "c"}, Series: []Series{{Name: "one", Values: values}}}.SVG())
		_, rest, _ := strings.Cut(svg, `class="legend" x="`)
		at, _, _ := strings.Cut(rest, `"`)
		return at
	}
	falling, rising, high := legend(3, 2, 1), legend(1, 2, 3), legend(3, 3, 3)
	if falling == rising || high != falling || rising != "56" {
		t.Errorf("legends at %s, %s, %s", falling, rising, high)
	}
}

// A column with a long text is one of words, which wrap.
func TestColumnsOfWords(t *testing.T) {
	table := Table{Head: []string{"a", "b", "c"}, Rows: [][]string{{strings.Repeat("x", 40), "1", "2"}, {"x", strings.Repeat("word ", 9)}}}
	for column, want := range []string{"figures", "words", "figures"} {
		if got := table.Class(column); got != want {
			t.Errorf("column %d is of %s, want %s", column, got, want)
		}
	}
}
