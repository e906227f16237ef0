package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"keyfold/internal/settings"
	"keyfold/internal/version"
)

// Report is what a measurement has shown. One goroutine adds to it. Its JSON names are
// stable.
type Report struct {
	Scenario  string     `json:"scenario"`
	Started   time.Time  `json:"started"`
	Machine   Machine    `json:"machine"`
	Disturbed bool       `json:"disturbed"` // other programs kept the machine busy at the start
	Versions  []Named    `json:"versions"`
	Settings  []Named    `json:"settings"`
	Figures   []*Figure  `json:"figures"`
	Latencies []*Latency `json:"latencies"`
	Series    []*Series  `json:"series"`
	Verdicts  []Verdict  `json:"verdicts"` // on all criteria
	Missed    []string   `json:"missed"`   // targets of the scenario's own
	Notes     []string   `json:"notes"`
	Repeat    string     `json:"repeat"` // the command
}

// Named is a setting or a version.
type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Figure is a number and what it was in each run.
type Figure struct {
	Of        string    `json:"of"` // the part that it is of; "": the scenario
	Name      string    `json:"name"`
	Unit      string    `json:"unit"`
	Median    float64   `json:"median"`
	Runs      []float64 `json:"runs"`
	Disturbed bool      `json:"disturbed"`
}

// Series is how something moved, beginning when the measurement did.
type Series struct {
	Name    string    `json:"name"`
	Of      string    `json:"of"` // a process, say
	Unit    string    `json:"unit"`
	Seconds []float64 `json:"seconds"`
	Values  []float64 `json:"values"`
}

// New begins a report of a scenario on this machine. command are the words that repeat it;
// passwords in them are hidden.
func New(scenario string, command ...string) *Report { return on(thisMachine(), scenario, command) }

func on(m Machine, scenario string, command []string) *Report {
	words := make([]string, len(command))
	for i, word := range command {
		if words[i] = settings.Redact(word); strings.ContainsAny(word, " '\"$&|;<>()*?\\") {
			words[i] = "'" + strings.ReplaceAll(words[i], "'", `'\''`) + "'"
		}
	}
	build := version.Read()
	return &Report{
		Scenario: scenario, Started: time.Now().UTC(), Machine: m, Disturbed: m.busy(), Verdicts: unmeasured(m.busy()),
		Versions: []Named{{"keyfold", build.Version + ", commit " + build.ShortCommit()}, {"Go", build.Go + " " + build.Platform}},
		Settings: []Named{}, Figures: []*Figure{}, Latencies: []*Latency{}, Series: []*Series{}, Missed: []string{}, Notes: []string{},
		Repeat: strings.Join(words, " "),
	}
}

// Version notes that of a server; "" where it is not known.
func (r *Report) Version(server, version string) {
	r.Versions = append(r.Versions, Named{server, cmp.Or(version, "not known")})
}

// Note adds a sentence.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Expect notes that a target of the scenario's own was missed, unless kept is true. A
// disturbed measurement misses none.
func (r *Report) Expect(kept bool, format string, args ...any) {
	switch {
	case kept:
	case r.Disturbed:
		r.Note("not judged, as the machine was disturbed: "+format, args...)
	default:
		r.Missed = append(r.Missed, fmt.Sprintf(format, args...))
	}
}

// Add adds a figure of the scenario, or another run of one.
func (r *Report) Add(name, unit string, value float64) { r.Of("")(name, unit, value) }

// Of returns what adds figures of a part of the scenario, or other runs of them.
func (r *Report) Of(part string) func(name, unit string, value float64) {
	return func(name, unit string, value float64) {
		f := r.Figure(part, name)
		if f == nil {
			f = &Figure{Of: part, Name: name, Unit: unit, Disturbed: r.Disturbed}
			r.Figures = append(r.Figures, f)
		}
		if math.IsNaN(value) || math.IsInf(value, 0) { // of a run that was too short to measure
			value = 0
		}
		f.Runs = append(f.Runs, value)
		f.Median = slices.Sorted(slices.Values(f.Runs))[len(f.Runs)/2]
	}
}

// Figure returns a figure, nil where there is none.
func (r *Report) Figure(part, name string) *Figure {
	for _, f := range r.Figures {
		if f.Of == part && f.Name == name {
			return f
		}
	}
	return nil
}

// Median returns a figure's, 0 where there is none.
func (r *Report) Median(part, name string) float64 {
	if f := r.Figure(part, name); f != nil {
		return f.Median
	}
	return 0
}

// Point adds a point to a series.
func (r *Report) Point(name, of, unit string, value float64) {
	i := slices.IndexFunc(r.Series, func(s *Series) bool { return s.Name == name && s.Of == of })
	if i < 0 {
		i = len(r.Series)
		r.Series = append(r.Series, &Series{Name: name, Of: of, Unit: unit})
	}
	s := r.Series[i]
	s.Seconds, s.Values = append(s.Seconds, time.Since(r.Started).Round(time.Millisecond).Seconds()), append(s.Values, math.Round(100*value)/100)
}
