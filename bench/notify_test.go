package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

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
	if err != nil {
		t.Fatal(err)
	}
	rate := rate{"50/s", 20 * time.Millisecond}
	for name, c := range map[string]shortForm{
		"throughput": measurement(&throughputCmd{Events: 400, Runs: 1, Limit: time.Minute}, func(c *throughputCmd) *notifyFlags { return &c.notifyFlags },
			"decisions/s", "round trips a flush", "of a core"),
		"pair": measurement(&pairCmd{Events: 300, Runs: 1, Limit: time.Minute}, func(c *pairCmd) *notifyFlags { return &c.notifyFlags },
			"one worker ", "conflicts of"),
		"latency": measurement(&latencyCmd{Rate: rate, Warm: time.Second, Duration: 2 * time.Second}, func(c *latencyCmd) *notifyFlags { return &c.notifyFlags },
			"committed ", "dispatched "),
		"outage": measurement(&ledgerOutageCmd{Rate: rate, Before: 2 * time.Second, Away: 4 * time.Second, After: 3 * time.Second, Expiring: 0.1},
			func(c *ledgerOutageCmd) *notifyFlags { return &c.notifyFlags }, "memory ", "0 letters", "0 events without a decision"),
		"backlog": measurement(&backlogCmd{Events: 2000, Rate: rate, Duration: 2 * time.Second}, func(c *backlogCmd) *notifyFlags { return &c.notifyFlags },
			"backlog ", "urgent "),
		"deferrals": measurement(&deferralsCmd{Waiting: 500, Rate: rate, Duration: 2 * time.Second, AtOnce: 300, Limit: time.Minute},
			func(c *deferralsCmd) *notifyFlags { return &c.notifyFlags }, "lag ", "0 left"),
	} {
		t.Run(name, func(t *testing.T) {
			long(t, name != "throughput")
			t.Parallel()
			var out strings.Builder
			*c.flags = notifyFlags{Users: 100, Seed: 1, Programs: programs, Keep: t.TempDir(), out: &out}
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
	command interface{ Run(context.Context) error }
	flags   *notifyFlags
	want    []string
}

func measurement[C interface{ Run(context.Context) error }](command C, flags func(C) *notifyFlags, want ...string) shortForm {
	return shortForm{command, flags(command), want}
}
