// Command bench measures keyfold on the machine it runs on. Figures of one run
// are comparable with each other; figures of different machines are not.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/alecthomas/kong"

	"keyfold/internal/cli"
	"keyfold/internal/report"
	"keyfold/internal/settings"
)

type commands struct {
	Output       string `short:"o" enum:"text,json" default:"text" help:"text or json."`
	report.Flags `embed:""`

	Load      loadCmd      `cmd:"" default:"withargs" set:"partitions=0" help:"Publish at a rate to workers and measure event to profile (default)."`
	Drain     drainCmd     `cmd:"" help:"Drain a preloaded queue: a bare consumer, a plain one, keyfold without and with batching."`
	Stream    streamCmd    `cmd:"" help:"Events of streams: bare, with the parser, through keyfold in memory and to the store; what they cost the broker, beside a queue."`
	Windows   windowsCmd   `cmd:"" help:"How many events a write has, reckoned by rate, users and windows."`
	Engine    engineCmd    `cmd:"" help:"Events through windows, fold and store, all in memory, on one core."`
	Poison    poisonCmd    `cmd:"" help:"What events that can never be folded cost the others: event to profile with and without."`
	Phrases   phrasesCmd   `cmd:"" help:"Searches through an embedding API and Redis, both with faults: requests, and event to profile."`
	Outage    outageCmd    `cmd:"" help:"Take the store away under load: memory, dead letters, and how soon the rate is back."`
	Ingest    ingestCmd    `cmd:"" help:"Requests at a rate to the HTTP API, the broker away in the middle: how soon they are answered, what becomes of them."`
	Scale     scaleCmd     `cmd:"" help:"Partitions and many workers: rate, processor time, latency; what priorities cost the broker."`
	Recommend recommendCmd `cmd:"" help:"Recommendations from a large catalogue in memory: latency at a rate, recall against exact search, memory."`
	Notify    notifyCmd    `cmd:"" help:"Notifications: throughput, latency, an outage, backlogs, deferrals; histories against the oracle."`
}

func main() {
	var c commands
	command := kong.Parse(&c, kong.Name("bench"), settings.Defaults(&c), kong.Description("Measures keyfold on this machine."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	command.BindTo(ctx, (*context.Context)(nil))
	r := report.New(command.Command(), slices.Concat([]string{"go", "run", "./bench"}, os.Args[1:])...)
	r.Settings = flagsOf(command)
	err := errors.Join(c.CheckFile(), settings.KnowEventTypes(os.Getenv("EVENT_TYPES")))
	if err == nil {
		err = command.Run(r)
	}
	stop()
	if err == nil || len(r.Figures) > 0 {
		console := cli.Console{Streams: cli.Streams{Stdout: os.Stdout, Stderr: os.Stderr}, JSON: c.Output == "json"}
		err = errors.Join(err, c.Write(&console, r))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// flagsOf are the flags of the command that have a value, given or by default.
func flagsOf(command *kong.Context) (all []report.Named) {
	for _, flag := range command.Selected().Flags {
		if value := settings.Redact(fmt.Sprint(command.FlagValue(flag))); value != "" && value != "0" && value != "[]" && len(flag.Envs) == 0 {
			all = append(all, report.Named{Name: flag.Name, Value: value})
		}
	}
	return all
}
