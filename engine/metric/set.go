// Package metric exposes the counters of the rooms in Prometheus's text format, each
// family with its type and a line of help.
package metric

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Set is a page of series. Its zero value is empty. It may be used from any goroutine.
//
// A series is a name, with labels or without: `x_total{outcome="sent"}`. Its family is
// the part before the brace. Help belongs to the family: the first series gives it,
// the others give the same text or none. It is a programming error, and panics, to
// register a series twice or a family with two types or texts.
type Set struct {
	writing  sync.Mutex // one page at a time: the updates are of one page
	mu       sync.Mutex
	families map[string]*family
	updates  []func()
}

type family struct {
	name, kind, help string
	names            []string          // of the series
	series           []func(io.Writer) // write them
}

// Counter registers a series that only grows. A negative number leaves it out.
func (s *Set) Counter(series, help string, read func() int64) {
	s.add(series, "counter", help, func(w io.Writer) {
		if n := read(); n >= 0 {
			fmt.Fprintf(w, "%s %d\n", series, n)
		}
	})
}

// Counters registers series that appear as they are first counted: read returns them by
// their label's value. name has the labels that they have in common, or none.
func (s *Set) Counters(name, label, help string, read func() map[string]int64) {
	s.add(name, "counter", help, func(w io.Writer) {
		family, common, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		if common != "" {
			common += ","
		}
		all := read()
		for _, value := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(w, "%s{%s%s=%q} %d\n", family, common, label, value, all[value])
		}
	})
}

// Gauge registers a series that grows and shrinks. NaN, which stands for a value that
// is not known, leaves it out.
func (s *Set) Gauge(series, help string, read func() float64) {
	s.add(series, "gauge", help, func(w io.Writer) {
		if v := read(); !math.IsNaN(v) {
			fmt.Fprintf(w, "%s %s\n", series, decimal(v))
		}
	})
}

// Int is the reader of a gauge that counts. Counts that are changed one after the
// other can be negative for a moment, which reads as 0.
func Int(read func() int64) func() float64 {
	return func() float64 { return float64(max(0, read())) }
}

// Histogram registers the series of a histogram, with labels or without.
func (s *Set) Histogram(series, help string, h *Histogram) {
	s.add(series, "histogram", help, func(w io.Writer) { h.write(w, series) })
}

// OnWrite registers what is called before the series are read, in the goroutine of
// each [Set.WritePrometheus], which write one page at a time: for series that share one
// look, because it is costly or because they must agree.
func (s *Set) OnWrite(update func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, update)
}

func (s *Set) add(series, kind, help string, write func(io.Writer)) {
	name, _, _ := strings.Cut(series, "{")
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.families[name]
	if f == nil {
		if s.families == nil {
			s.families = map[string]*family{}
		}
		f = &family{name: name, kind: kind, help: help}
		s.families[name] = f
	}
	if f.help == "" || help != "" && help != f.help || kind != f.kind || slices.Contains(f.names, series) {
		panic("metric: " + series + " has no help, or is registered twice, or its family has another type or help")
	}
	f.names, f.series = append(f.names, series), append(f.series, write)
}

// escape is for help texts, by the format's rules.
var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

// WritePrometheus writes all families by name. Write errors are ignored: the scraper
// has disconnected.
func (s *Set) WritePrometheus(to io.Writer) {
	var page bytes.Buffer // a scraper that reads slowly keeps no other waiting
	s.write(&page)
	_, _ = page.WriteTo(to)
}

func (s *Set) write(w io.Writer) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock() // only to copy: a series or an update may take a while
	updates, families := s.updates, make([]family, 0, len(s.families))
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		families = append(families, *s.families[name])
	}
	s.mu.Unlock()
	for _, update := range updates {
		update()
	}
	for _, f := range families {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, escape.Replace(f.help), f.name, f.kind)
		for _, write := range f.series {
			write(w)
		}
	}
}

// decimal writes a number without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
