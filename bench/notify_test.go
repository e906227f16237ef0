package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/proof/stack"
)

func TestMain(m *testing.M) { process.Main(m) }

// A short form of each measurement: it runs to its end and prints its figures. Their
// values say nothing here.
//
// Promise(proof/notify-outage): With PostgreSQL away memory stays flat and nothing is dead-lettered;
// all that waited is decided afterwards.
// Figure: 10 min at 200 events/s: 56 to 45 MiB, all 120,363 that waited decided within 139 s (`go run
// ./bench notify outage`)
func TestNotifyMeasurements(t *testing.T) {
	programs, err := process.TempDir()
	if err == nil {
		err = stack.Build(t.Context(), programs)
	}
	must.OK(t, err)
	rate := rate{"50/s", 20 * time.Millisecond}
	for name, c := range map[string]shortForm{
		"throughput": short(&throughputCmd{Events: 400, Runs: 1, Limit: time.Minute}, func(c *throughputCmd) *notifyFlags { return &c.notifyFlags },
			"decisions, from queue", "round trips to PostgreSQL a flush", "% of a core"),
		"pair": short(&pairCmd{Events: 300, Runs: 1, Limit: time.Minute}, func(c *pairCmd) *notifyFlags { return &c.notifyFlags },
			"one worker ", "share of conflicts"),
		"latency": short(&latencyCmd{Rate: rate, Warm: time.Second, Duration: 2 * time.Second}, func(c *latencyCmd) *notifyFlags { return &c.notifyFlags },
			"publish to commit", "publish to dispatch"),
		"outage": short(&ledgerOutageCmd{Rate: rate, Before: 2 * time.Second, Away: 4 * time.Second, After: 3 * time.Second, Expiring: 0.1},
			func(c *ledgerOutageCmd) *notifyFlags { return &c.notifyFlags }, "resident while away", "dead letters by the end of the outage", "0 events without a decision"),
		"backlog": short(&backlogCmd{Events: 2000, Rate: rate, Duration: 2 * time.Second}, func(c *backlogCmd) *notifyFlags { return &c.notifyFlags },
			"backlog ", "urgent to commit "),
		"deferrals": short(&deferralsCmd{Waiting: 500, Rate: rate, Duration: 2 * time.Second, AtOnce: 300, Limit: time.Minute},
			func(c *deferralsCmd) *notifyFlags { return &c.notifyFlags }, "due to decision", "left "),
	} {
		t.Run(name, func(t *testing.T) {
			long(t, name != "throughput")
			t.Parallel()
			r := begin()
			*c.flags = notifyFlags{Users: 100, Seed: 1, Programs: programs, Keep: t.TempDir()}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if err := c.command.Run(ctx, r); err != nil {
				t.Fatalf("%v\n%s", err, text(r))
			}
			for _, want := range c.want {
				if out := text(r); !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}

// long skips a run that `make test` has no time for unless KEYFOLD_SOAK asks for it, as
// `make test-long` does: each has servers of its own.
func long(t *testing.T, is bool) {
	t.Helper()
	if is && os.Getenv("KEYFOLD_SOAK") == "" {
		t.Skip("a run of servers of its own: set KEYFOLD_SOAK=1")
	}
}

// shortForm is a command with its flags and what it prints.
type shortForm struct {
	command measurement
	flags   *notifyFlags
	want    []string
}

func short[C measurement](command C, flags func(C) *notifyFlags, want ...string) shortForm {
	return shortForm{command, flags(command), want}
}
