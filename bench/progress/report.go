package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json, as `go doc test2json` describes it.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

const (
	quietFor = 15 * time.Second // after that a line says what runs
	unknown  = 2                // expected seconds of a package that is not recorded
	dearest  = 10               // packages whose processor time is printed
)

// report turns events into lines.
type report struct {
	out      io.Writer
	now      func() time.Time
	began    time.Time
	printed  time.Time            // the last line
	packages int                  // to run
	expected float64              // seconds of the whole run
	all      float64              // the sum of the packages' expected seconds
	open     map[string]float64   // those of packages that have not ended
	running  map[string]time.Time // since when
	took     map[string]float64
	cpu      map[string]float64 // seconds of processor time, children's included
	spent    float64            // seconds of processor time of go test and all its children
	output   map[string][]event // of packages that have not ended
	failed   []string
}

// newReport takes the seconds of each package in an earlier run, "" for the whole.
func newReport(out io.Writer, now func() time.Time, earlier map[string]float64, chosen []string) *report {
	r := &report{
		out: out, now: now, began: now(), printed: now(), packages: len(chosen), expected: earlier[""],
		open: map[string]float64{}, running: map[string]time.Time{}, took: map[string]float64{}, cpu: map[string]float64{}, output: map[string][]event{},
	}
	for _, path := range chosen {
		seconds, known := earlier[path]
		if !known {
			seconds = unknown
		}
		r.open[path] = seconds
		r.all += seconds
	}
	return r
}

// begin says what comes.
func (r *report) begin(left []string) {
	r.print("%d packages with tests; about %s on 2 cores", r.packages, duration(r.expected))
	if len(left) > 0 {
		r.print("left out of this step: %s", strings.Join(left, " "))
	}
}

func (r *report) print(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
	r.printed = r.now()
}

// add takes an event.
func (r *report) add(e event) {
	ended := e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip")
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Package == "":
	case e.Action == "start":
		r.running[e.Package] = r.now()
	case ended:
		r.end(e)
	default:
		if seconds, before, ok := cpuIn(e.Output); ok {
			r.cpu[e.Package], e.Output = seconds, before
		}
		r.output[e.Package] = append(r.output[e.Package], e)
	}
}

// end prints a package's end: of a failed one the output of all tests that have not
// passed, then go test's own line with the time and the estimate.
func (r *report) end(e event) {
	last := strings.ToUpper(e.Action) + "\t" + e.Package + "\n"
	good, text := map[string]bool{}, []string{}
	for _, of := range slices.Backward(r.output[e.Package]) { // a test's verdict is its last event
		switch {
		case of.Action == "pass" || of.Action == "skip":
			good[of.Test] = true
		case of.Action == "run": // with -count each of its runs has a verdict
			delete(good, of.Test)
		case of.Action == "output" && (of.Test == "" || !good[of.Test]):
			text = append(text, of.Output)
		}
	}
	if len(text) > 0 {
		last, text = text[0], text[1:]
	}
	delete(r.output, e.Package)
	delete(r.running, e.Package)
	delete(r.open, e.Package)
	r.took[e.Package] = math.Round(e.Elapsed)
	if e.Action == "fail" {
		r.failed = append(r.failed, e.Package)
		slices.Reverse(text)
		fmt.Fprint(r.out, strings.Join(text, ""))
	}
	r.print("%-60s  %s", strings.ReplaceAll(strings.TrimSpace(last), "\t", "  "), r.standing())
}

// still prints what runs, if no line was printed for a while.
func (r *report) still() {
	if r.now().Sub(r.printed) < quietFor {
		return
	}
	names := slices.Sorted(maps.Keys(r.running))
	for i, path := range names {
		names[i] = strings.TrimPrefix(path, "keyfold/") + " " + r.since(r.running[path])
	}
	if len(names) == 0 {
		names = []string{"building"}
	}
	r.print("      ... %s  %s", strings.Join(names, ", "), r.standing())
}

// finish says what the run has cost and how it has ended. brokers is the seconds of processor
// time that the brokers have taken which the test programs share.
func (r *report) finish(brokers float64) {
	r.costs(brokers)
	switch {
	case len(r.failed) > 0:
		r.print("%d of %d packages failed in %s: %s", len(r.failed), r.packages, r.since(r.began), strings.Join(r.failed, ", "))
	case len(r.open) > 0:
		r.print("%d of %d packages have no result after %s", len(r.open), r.packages, r.since(r.began))
	default:
		r.print("%d packages passed in %s", r.packages, r.since(r.began))
	}
}

// costs prints the processor and wall time of the dearest packages.
func (r *report) costs(brokers float64) {
	paths := slices.SortedFunc(maps.Keys(r.cpu), func(a, b string) int { return cmp.Compare(r.cpu[b], r.cpu[a]) })
	sum := 0.0
	for i, path := range paths {
		sum += r.cpu[path]
		if i < dearest {
			r.print("%7.0f s of CPU, %5.0f s: %s", r.cpu[path], r.took[path], path)
		}
	}
	r.print("%7.0f s of CPU in all: %.0f s by the tests of %d packages, %.0f s by brokers that they share, %.0f s to compile and link",
		r.spent+brokers, sum, len(paths), brokers, max(0, r.spent-sum))
}

// standing says how far the run is.
func (r *report) standing() string {
	text := fmt.Sprintf("%s, %d of %d", r.since(r.began), r.packages-len(r.open), r.packages)
	if len(r.open) > 0 {
		text += ", about " + duration(r.left()) + " left"
	}
	return text
}

// left estimates how many seconds are left: at first by the earlier run's total, later
// by this one's pace.
func (r *report) left() float64 {
	open := 0.0
	for path, seconds := range r.open {
		if since, runs := r.running[path]; runs {
			seconds = max(seconds-r.now().Sub(since).Seconds(), seconds/10)
		}
		open += seconds
	}
	share := open / r.all
	if share < 3.0/4 {
		return r.now().Sub(r.began).Seconds() * share / (1 - share)
	}
	return r.expected * share
}

func (r *report) since(t time.Time) string { return r.now().Sub(t).Round(time.Second).String() }

// times returns what the run has taken, by package, and "" for the whole.
func (r *report) times() map[string]float64 {
	r.took[""] = math.Round(r.now().Sub(r.began).Seconds())
	return r.took
}

// duration says seconds as a person would.
func duration(seconds float64) string {
	if seconds < 90 {
		return fmt.Sprintf("%.0f s", max(seconds, 5))
	}
	return fmt.Sprintf("%.0f min", seconds/60)
}
