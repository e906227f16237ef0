package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"keyfold/bench/stack"
	"keyfold/bench/testserver/process"
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
	flags := scaleFlags{Partitions: 4, Users: 40, Batch: 4, Programs: programs}
	cpu := &scaleCPUCmd{scaleFlags: flags, Workers: 2, Events: 300, Runs: 1}
	workers := &scaleWorkersCmd{scaleFlags: flags, Workers: []int{1, 2}, Events: 200, Latency: time.Millisecond, FlushUsers: 4, Competing: true}
	workers.Zipf = true
	load := &loadCmd{
		Rate: rate{"50/s", 20 * time.Millisecond}, Duration: time.Second, Workers: 2, Users: 40, Partitions: 4,
		Env: []string{"EMBEDDING_BATCH_WINDOW=1"}, Programs: programs,
	}
	priorities := &prioritiesCmd{Messages: 500, Bytes: 10, Runs: 1}
	for name, c := range map[string]struct {
		command interface{ Run(context.Context) error }
		output  *outputFlag
		want    []string
	}{
		"workers":    {workers, &workers.outputFlag, []string{"\n4 partitions", "\ncompeting", "Zipf users"}},
		"cpu":        {cpu, &cpu.outputFlag, []string{"\n 2 workers", "ratio "}},
		"latency":    {load, &load.outputFlag, []string{"folded     50 of them (100.00 %)", "single "}},
		"priorities": {priorities, &priorities.outputFlag, []string{"with x-max-priority "}},
	} {
		t.Run(name, func(t *testing.T) {
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
}

func TestScaleReports(t *testing.T) {
	r := scaleReport{Runs: []scaled{
		{drained: drained{Workers: 1, Rate: 100, WritesEach: 0.25}, Partitions: 64},
		{drained: drained{Workers: 10, Rate: 790, WritesEach: 0.27, Conflicts: 2}, Partitions: 64},
		{drained: drained{Workers: 1, Rate: 100}},
		{drained: drained{Workers: 10, Rate: 100, Conflicts: 500}},
	}}
	r.compare()
	if got := r.Runs[1]; got.Speedup != 7.9 || got.OfLinear != 0.79 {
		t.Errorf("speedup %v, %v of linear", got.Speedup, got.OfLinear)
	}
	c := scaleWorkersCmd{scaleFlags: scaleFlags{Partitions: 64, Check: true}}
	misses := c.misses(&r).Error()
	for _, want := range []string{"0.79 of linear", "2.00 conflicts", "1.08 times the writes"} {
		if !strings.Contains(misses, want) {
			t.Errorf("no %q in %q", want, misses)
		}
	}
	if n := strings.Count(misses, "\n"); n != 2 {
		t.Errorf("%d misses, want 3: competing consumers have no target", n+1)
	}
	var out strings.Builder
	f := outputFlag{Output: "json", out: &out}
	if err := f.emit(&r, nil); err != nil || !json.Valid([]byte(out.String())) {
		t.Errorf("%v: %s", err, &out)
	}
}
