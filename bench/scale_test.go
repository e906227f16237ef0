package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/internal/cli"
	"keyfold/internal/report"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/proof/stack"
)

// A short form of each measurement: it runs to its end, loses and doubles no event, and
// prints its figures. Their values say nothing here.
func TestScaleMeasurements(t *testing.T) {
	programs, err := process.TempDir()
	if err == nil {
		err = stack.Build(t.Context(), programs)
	}
	must.OK(t, err)
	flags := scaleFlags{
		Partitions: []int{4, 0}, Workers: []int{1, 2}, Programs: programs, Limit: 5 * time.Minute, Env: []string{"EMBEDDING_BATCH_WINDOW=1", "EMBEDDING_BATCH_MAX_DELAY=3"},
	}
	cpu := &scaleCPUCmd{scaleFlags: flags, Rate: rate{"50/s", 20 * time.Millisecond}, For: 2 * time.Second}
	workers := &scaleWorkersCmd{scaleFlags: flags, Events: 100, Latency: time.Millisecond, Prefetch: 32}
	load := &loadCmd{
		Rate: rate{"50/s", 20 * time.Millisecond}, Duration: time.Second, Workers: 2, Users: 40, Partitions: 4,
		Env: []string{"EMBEDDING_BATCH_WINDOW=1"}, Programs: programs,
	}
	t.Run("latency", func(t *testing.T) {
		long(t, true)
		t.Parallel()
		r := begin()
		if err := load.Run(t.Context(), r); err != nil || r.Median("", "folded share") != 100 || r.Median("", "published") != 50 {
			t.Fatalf("%v\n%s", err, text(r))
		}
	})
	t.Run("load by streams", func(t *testing.T) {
		long(t, true)
		t.Parallel()
		byStreams, r := *load, begin()
		byStreams.Partitions, byStreams.Streams = 0, 2
		if err := byStreams.Run(t.Context(), r); err != nil || r.Median("", "folded share") != 100 || r.Median("", "published") != 50 || r.Median("", "in streams") != 50 ||
			!slices.Contains(r.Notes, "published by the stream protocol") {
			t.Fatalf("%v\n%s", err, text(r))
		}
	})
	t.Run("cpu", func(t *testing.T) {
		long(t, true)
		t.Parallel()
		checkRuns(t, cpu, func(workers int) int { return workers * 100 })
	})
	t.Run("workers", func(t *testing.T) {
		t.Parallel()
		checkRuns(t, workers, func(workers int) int { return workers * 100 })
	})
}

// measurement is a command that fills a report.
type measurement interface {
	Run(ctx context.Context, r *report.Report) error
}

// begin begins a report as on a machine that does nothing else.
func begin() *report.Report {
	r := report.New("test")
	r.Disturbed = false
	return r
}

func text(r *report.Report) string {
	var out strings.Builder
	r.Text(&cli.Text{W: &out})
	return out.String()
}

// checkRuns runs a measurement of 1 and 2 workers with 4 partitions and with one queue. That
// each event is in its profile once is a condition of each run.
func checkRuns(t *testing.T, c measurement, events func(workers int) int) {
	r := begin()
	err := c.Run(t.Context(), r)
	ended := 0
	for _, run := range []drained{{Partitions: 4, Workers: 1}, {Partitions: 4, Workers: 2}, {Workers: 1}, {Workers: 2}} {
		of := func(name string) float64 { return r.Median(run.String(), name) }
		if r.Figure(run.String(), "events") == nil {
			continue
		}
		ended++
		if of("events") != float64(events(run.Workers)) || of("took") <= 0 || of("rate") <= 0 || of("writes an event") <= 0 || of("writes an event") > 1 ||
			of("writes a flush") < 1 || of("worker") <= 0 || of("of one") <= 0 || of("dead letters") != 0 {
			t.Errorf("%v has no figures", run)
		}
	}
	if ended == 0 || ended+len(r.Notes) != 4 {
		t.Fatalf("%v\n%s", err, text(r))
	}
}

func TestScaleReports(t *testing.T) {
	runs := []drained{
		{Partitions: 64, Workers: 1, Rate: 100, WorkerCPU: 1},
		{Partitions: 64, Workers: 10, Rate: 790, WorkerCPU: 1.31, Conflicts: 2},
		{Workers: 1, Rate: 100, WorkerCPU: 1},
		{Workers: 10, Rate: 100, WorkerCPU: 3, Conflicts: 500},
	}
	compare(runs, func(d drained) float64 { return d.Rate })
	if got := runs[1]; got.OfOne != 7.9 || got.ofLinear() != 0.79 {
		t.Errorf("%v of one, %v of linear", got.OfOne, got.ofLinear())
	}
	flags := scaleFlags{Check: true}
	checkMisses(t, runs, (&scaleWorkersCmd{scaleFlags: flags}).judge, "reach 0.79 of linear", "2.00 conflicts")
	runs[1].Share = 0.9
	checkMisses(t, runs, (&scaleWorkersCmd{scaleFlags: flags}).judge, "latency was not the bound", "2.00 conflicts")
	compare(runs, func(d drained) float64 { return d.WorkerCPU })
	checkMisses(t, runs, (&scaleCPUCmd{scaleFlags: flags}).judge, "1.31 times the processor time", "2.00 conflicts")
}

// checkMisses compares the targets that were missed.
func checkMisses(t *testing.T, runs []drained, judge func(*report.Report, []drained), want ...string) {
	t.Helper()
	r := begin()
	judge(r, runs)
	misses := r.Err().Error()
	for _, miss := range want {
		if !strings.Contains(misses, miss) {
			t.Errorf("no %q in %q", miss, misses)
		}
	}
	if n := strings.Count(misses, "\n") + 1; n != len(want) {
		t.Errorf("%d misses, want %d: workers on one queue have no target", n, len(want))
	}
}

func TestScaleSaysWhatToChange(t *testing.T) {
	for want, flags := range map[string]scaleFlags{
		"begin with 1":  {Workers: []int{2, 3}, Limit: time.Minute},
		"raise --limit": {Workers: []int{1}, Programs: t.TempDir()},
	} {
		c := scaleCPUCmd{scaleFlags: flags, Rate: rate{pause: time.Second}}
		if err := c.Run(t.Context(), begin()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
