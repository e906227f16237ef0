package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is a line of go test -json, as `go doc test2json` and `go help buildjson`
// describe it.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of build-output
	Elapsed                       float64
}

// tickPause is after how long without a line one says what runs.
const tickPause = 15 * time.Second

// report turns events into lines. Its methods may be called from several goroutines.
type report struct {
	out   io.Writer
	now   func() time.Time
	last  times
	began time.Time

	mu       sync.Mutex
	quiet    time.Time            // since when no line was printed
	seconds  map[string]float64   // expected, of packages with tests that have not ended
	all      float64              // the sum of all expected seconds
	packages int                  // those with tests
	running  map[string]time.Time // since when
	took     map[string]float64
	output   map[string]*buffered // by package
	failed   []string
}

// buffered is what a package has printed, by test; "" is the package itself.
type buffered struct {
	tests []string // in the order of their first lines
	text  map[string]*strings.Builder
	good  map[string]bool // passed or skipped
}

func newReport(out io.Writer, now func() time.Time, last times, chosen []pkg) *report {
	r := &report{
		out: out, now: now, last: last, began: now(), quiet: now(),
		seconds: map[string]float64{}, running: map[string]time.Time{}, took: map[string]float64{}, output: map[string]*buffered{},
	}
	for _, p := range chosen {
		if p.tests {
			r.packages++
			r.seconds[p.path] = expected(p, last.Packages)
			r.all += r.seconds[p.path]
		}
	}
	return r
}

// begin says what comes.
func (r *report) begin(left []pkg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	about := "how long it takes is not known yet"
	if r.last.Total > 0 {
		about = "about " + minutes(r.last.Total)
	}
	r.print("%d packages with tests; %s", r.packages, about)
	for i, p := range slices.DeleteFunc(slices.Clone(left), func(p pkg) bool { return !p.tests }) {
		if i == 0 {
			r.print("left out, as their tests start servers; make test runs them:")
		}
		r.print("      %s", p.path)
	}
}

func (r *report) print(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
	r.quiet = r.now()
}

// add takes an event.
func (r *report) add(e *event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Package == "":
	case e.Action == "start":
		r.running[e.Package] = r.now()
	case e.Action == "output":
		r.of(e.Package).print(e.Test, e.Output)
	case e.Test != "" && (e.Action == "pass" || e.Action == "skip"):
		r.of(e.Package).good[e.Test] = true
	case e.Test == "" && slices.Contains([]string{"pass", "fail", "skip"}, e.Action):
		r.end(e)
	}
}

func (r *report) of(path string) *buffered {
	b := r.output[path]
	if b == nil {
		b = &buffered{text: map[string]*strings.Builder{}, good: map[string]bool{}}
		r.output[path] = b
	}
	return b
}

func (b *buffered) print(test, text string) {
	if b.text[test] == nil {
		b.text[test] = &strings.Builder{}
		b.tests = append(b.tests, test)
	}
	b.text[test].WriteString(text)
}

// end prints a package's end: of a failed one the output of all tests that have not
// passed, then go test's own line with the time and the estimate.
func (r *report) end(e *event) {
	b := r.of(e.Package)
	_, tests := r.seconds[e.Package]
	delete(r.output, e.Package)
	delete(r.running, e.Package)
	delete(r.seconds, e.Package)
	switch {
	case e.Action == "fail":
		r.failed = append(r.failed, e.Package)
		b.show(r.out)
	case !tests:
		return
	default:
		r.took[e.Package] = math.Round(10*e.Elapsed) / 10
	}
	lines := b.lines("")
	if len(lines) == 0 {
		lines = []string{strings.ToUpper(e.Action) + " " + e.Package}
	}
	r.print("%-60s  %s", strings.ReplaceAll(lines[len(lines)-1], "\t", "  "), r.standing())
}

// lines are those that a test has printed, "" the package itself.
func (b *buffered) lines(test string) []string {
	if b.text[test] == nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(b.text[test].String(), "\n"), "\n")
}

// show prints what a failed package has printed: of the tests that have not passed, and
// of the package itself all but the last line, which says that it has failed.
func (b *buffered) show(out io.Writer) {
	for _, test := range b.tests {
		if test != "" && !b.good[test] {
			fmt.Fprint(out, b.text[test].String())
		}
	}
	if own := b.lines(""); len(own) > 1 {
		fmt.Fprintln(out, strings.Join(own[:len(own)-1], "\n"))
	}
}

// finish says how the run has ended.
func (r *report) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := r.now().Sub(r.began).Round(time.Second)
	switch {
	case len(r.failed) > 0:
		r.print("%d of %d packages failed in %s: %s", len(r.failed), r.packages, took, strings.Join(r.failed, ", "))
	case len(r.seconds) > 0:
		r.print("%d of %d packages have no result after %s", len(r.seconds), r.packages, took)
	default:
		r.print("%d packages passed in %s", r.packages, took)
	}
}

// standing says how far the run is.
func (r *report) standing() string {
	text := fmt.Sprintf("%s, %d of %d", r.now().Sub(r.began).Round(time.Second), r.packages-len(r.seconds), r.packages)
	if left := r.left(); len(r.seconds) > 0 && left > 0 {
		text += ", about " + minutes(left) + " left"
	}
	return text
}

// left estimates how many seconds are left: at first by the last run's total, later
// by this one's pace. 0 means that there is no estimate.
func (r *report) left() float64 {
	open := 0.0
	for path, s := range r.seconds {
		if since, runs := r.running[path]; runs {
			s = max(s-r.now().Sub(since).Seconds(), s/10)
		}
		open += s
	}
	if r.all == 0 {
		return 0
	}
	share := open / r.all
	if share < 3.0/4 {
		return r.now().Sub(r.began).Seconds() * share / (1 - share)
	}
	return r.last.Total * share
}

// tick says every now and then what runs, where no package has ended for a while. stop
// ends that.
func (r *report) tick(pause time.Duration) (stop func()) {
	ticker, done, ended := time.NewTicker(pause/5), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				r.still(pause)
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}

// still prints what runs, if no line was printed for a while.
func (r *report) still(pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Sub(r.quiet) < pause {
		return
	}
	var names []string
	for path, since := range r.running {
		if _, tests := r.seconds[path]; tests {
			names = append(names, fmt.Sprintf("%s %s", strings.TrimPrefix(path, "keyfold/"), r.now().Sub(since).Round(time.Second)))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		names = []string{"building"}
	}
	r.print("      ... %s  %s", strings.Join(names, ", "), r.standing())
}

// times returns what the run has taken.
func (r *report) times() times {
	r.mu.Lock()
	defer r.mu.Unlock()
	return times{Total: r.now().Sub(r.began).Round(time.Second).Seconds(), Packages: r.took}
}

// minutes says a time as a person would.
func minutes(seconds float64) string {
	switch {
	case seconds < 15:
		return "15 s"
	case seconds < 90:
		return fmt.Sprintf("%.0f s", seconds)
	default:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
}
