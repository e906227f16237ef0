package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

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
	if err != nil {
		t.Fatal(err)
	}
	flags := scaleFlags{
		Partitions: []int{4, 0}, Workers: []int{1, 2}, Programs: programs, Limit: 5 * time.Minute, Env: []string{"EMBEDDING_BATCH_WINDOW=1", "EMBEDDING_BATCH_MAX_DELAY=3"},
		outputFlag: outputFlag{Output: "json"},
	}
	cpu := &scaleCPUCmd{scaleFlags: flags, Rate: rate{"50/s", 20 * time.Millisecond}, For: 2 * time.Second}
	workers := &scaleWorkersCmd{scaleFlags: flags, Events: 100, Latency: time.Millisecond, Prefetch: 32}
	load := &loadCmd{
		Rate: rate{"50/s", 20 * time.Millisecond}, Duration: time.Second, Workers: 2, Users: 40, Partitions: 4,
		Env: []string{"EMBEDDING_BATCH_WINDOW=1"}, Programs: programs,
	}
	for name, c := range map[string]struct {
		command interface{ Run(context.Context) error }
		output  *outputFlag
		want    []string
	}{
		"latency": {load, &load.outputFlag, []string{"folded     50 of them (100.00 %)", "single "}},
	} {
		t.Run(name, func(t *testing.T) {
			long(t, true)
			t.Parallel()
			var out strings.Builder
			c.output.out = &out
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if err := c.command.Run(ctx); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, &out)
				}
			}
		})
	}
	t.Run("cpu", func(t *testing.T) {
		long(t, true)
		t.Parallel()
		checkRuns(t, cpu, &cpu.outputFlag, func(workers int) int { return workers * 100 })
	})
	t.Run("workers", func(t *testing.T) {
		t.Parallel()
		checkRuns(t, workers, &workers.outputFlag, func(workers int) int { return workers * 100 })
	})
}

// checkRuns runs a measurement of 1 and 2 workers with 4 partitions and with one queue. That
// each event is in its profile once is a condition of each run.
func checkRuns(t *testing.T, c interface{ Run(context.Context) error }, output *outputFlag, events func(workers int) int) {
	var out strings.Builder
	output.out = &out
	err := c.Run(t.Context())
	var got struct {
		Runs []drained `json:"runs"`
		Left []string  `json:"not_measured"`
	}
	if failed := json.Unmarshal([]byte(out.String()), &got); failed != nil {
		t.Fatalf("%v, %v: %s", err, failed, &out)
	}
	if len(got.Runs)+len(got.Left) != 4 || len(got.Runs) == 0 {
		t.Fatalf("%v: %s", err, &out)
	}
	for i, d := range got.Runs {
		want := []drained{{Partitions: 4, Workers: 1}, {Partitions: 4, Workers: 2}, {Workers: 1}, {Workers: 2}}[i]
		if d.Partitions != want.Partitions || d.Workers != want.Workers || d.Events != events(want.Workers) {
			t.Errorf("run %d is %+v", i, d)
		}
		if d.Seconds <= 0 || d.Rate <= 0 || d.WritesEach <= 0 || d.WritesEach > 1 || d.FlushWrites < 1 || d.WorkerCPU <= 0 || d.OfOne <= 0 || d.DeadLetters != 0 {
			t.Errorf("run %d has no figures: %+v", i, d)
		}
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
	flags := scaleFlags{Check: true, outputFlag: outputFlag{Output: "text"}}
	r := scaleReport{Runs: runs, Left: []string{"one queue, 20 workers"}}
	checkReport(t, flags, &r, r.print, (&scaleWorkersCmd{scaleFlags: flags}).misses(&r), "0.79 of linear", "2.00 conflicts")
	runs[1].Share = 0.9
	checkReport(t, flags, &r, r.print, (&scaleWorkersCmd{scaleFlags: flags}).misses(&r), "latency was not the bound", "2.00 conflicts")
	compare(runs, func(d drained) float64 { return d.WorkerCPU })
	p := cpuReport{Runs: runs, Left: r.Left}
	checkReport(t, flags, &p, p.print, (&scaleCPUCmd{scaleFlags: flags}).misses(&p), "1.31 times the processor time", "2.00 conflicts")
}

// checkReport prints a report both ways, and compares the targets that were missed.
func checkReport(t *testing.T, flags scaleFlags, r any, print func(io.Writer) error, misses error, want ...string) {
	t.Helper()
	for _, miss := range want {
		if !strings.Contains(misses.Error(), miss) {
			t.Errorf("no %q in %q", miss, misses)
		}
	}
	if n := strings.Count(misses.Error(), "\n") + 1; n != len(want) {
		t.Errorf("%d misses, want %d: workers on one queue have no target", n, len(want))
	}
	var out strings.Builder
	flags.out = &out
	if err := flags.emit(r, print); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"\n64 partitions       10 ", "\none queue           10 ", "used up: one queue, 20 workers\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
	out.Reset()
	flags.Output = "json"
	if err := flags.emit(r, print); err != nil || !json.Valid([]byte(out.String())) {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestScaleSaysWhatToChange(t *testing.T) {
	for want, flags := range map[string]scaleFlags{
		"begin with 1":  {Workers: []int{2, 3}, Limit: time.Minute},
		"raise --limit": {Workers: []int{1}, Programs: t.TempDir()},
	} {
		c := scaleCPUCmd{scaleFlags: flags, Rate: rate{pause: time.Second}}
		c.out = io.Discard
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
