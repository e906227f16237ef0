package dashboard

import (
	"context"
	"math"
	"time"

	"keyfold/internal/chart"
	"keyfold/source/httpapi"
)

// Past is what happened over a span of time, as many values of each as there are times. NaN: it is
// not known.
type Past struct {
	Times        []time.Time // ascending
	In, Folded   []float64   // events a second
	Age99, Age50 []float64   // of profiles, seconds
	Queued       []float64   // messages that wait for a worker
	Unsent       []float64   // rows that wait for the relay
	Marks        []time.Time // when a process began anew
}

// spans are what the plots can be of, beside the [shown] minutes that are kept here.
var spans = []struct {
	Value, Name string
	of          time.Duration
}{{"", "15 min", shown}, {"1h", "1 h", time.Hour}, {"24h", "24 h", 24 * time.Hour}, {"7d", "7 d", 7 * 24 * time.Hour}}

// pastOf are the figures that are kept here.
func pastOf(samples []sample) *Past {
	p := &Past{}
	for _, s := range samples {
		p.Times = append(p.Times, s.At)
		if s.Restarted {
			p.Marks = append(p.Marks, s.At)
		}
		p.In, p.Folded = append(p.In, rateIn(s)), append(p.Folded, rateFolded(s))
		p.Age99, p.Age50 = append(p.Age99, s.age(0.99)), append(p.Age50, s.age(0.5))
		p.Queued, p.Unsent = append(p.Queued, s.Queued), append(p.Unsent, s.Unsent)
	}
	return p
}

// plotted draws the span that the viewer asks for.
func (d *Dashboard) plotted(r *httpapi.Request, o *overview, seen *snapshot) {
	span := shown
	asked := r.URL.Query().Get("range")
	if d.sources.Past != nil {
		for _, one := range spans {
			o.Spans = append(o.Spans, choice{one.Value, one.Name, one.Value == asked})
			if one.Value == asked {
				span = one.of
			}
		}
	}
	if span == shown {
		o.Plots = plotsOf(pastOf(seen.Samples), shown)
		return
	}
	found := d.results.get(r.Context(), resultKey{what: "range " + asked}, func(ctx context.Context) (any, error) { return d.sources.Past(ctx, span) })
	switch {
	case found == nil:
		o.PastFault = "the figures of this span are being read, which takes longer than usual"
	case found.err != nil:
		o.PastFault = found.err.Error()
	default:
		o.Plots = plotsOf(found.value.(*Past), span)
	}
}

// plotsOf draws figures of a span.
func plotsOf(p *Past, span time.Duration) []plot {
	if len(p.Times) < 2 {
		return nil
	}
	until := p.Times[len(p.Times)-1]
	draw := func(id, title, unit string, all ...chart.Series) plot {
		one := chart.Plot{ID: id, Title: title, Unit: unit, From: until.Add(-span), Until: until, Times: p.Times, Series: all, Marks: p.Marks, Mark: "a process began anew"}
		drawn := plot{ID: id, Title: title, SVG: one.SVG(), Table: one.Table()}
		for _, s := range all {
			drawn.Lines = append(drawn.Lines, s.Name)
		}
		return drawn
	}
	return []plot{
		draw("plot-rate", "Events a second", "/s", chart.Series{Name: "in", Values: p.In}, chart.Series{Name: "folded", Values: p.Folded}),
		draw("plot-age", "Age of profiles, seconds", " s", chart.Series{Name: "p99", Values: p.Age99}, chart.Series{Name: "p50", Values: p.Age50}),
		draw("plot-backlog", "Backlog", "", chart.Series{Name: "queued", Values: p.Queued}, chart.Series{Name: "outbox", Values: p.Unsent}),
	}
}

func rateIn(s sample) float64     { return s.rate(s.In) }
func rateFolded(s sample) float64 { return s.rate(s.Folded) }

func percent(share float64) string { return chart.Figure(math.Round(share * 100)) }
