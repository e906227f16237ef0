// Command keyfold is the daemon and the tools around it: events from RabbitMQ
// become profiles in MongoDB.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
	"keyfold/service/profile/embedding"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/bench"
	"keyfold/cmd/keyfold/config"
	"keyfold/cmd/keyfold/failures"
	"keyfold/cmd/keyfold/notifications"
	"keyfold/cmd/keyfold/outbox"
	"keyfold/cmd/keyfold/profiles"
	"keyfold/cmd/keyfold/recommending"
	"keyfold/cmd/keyfold/status"
	"keyfold/cmd/keyfold/streams"
)

func main() { cli.Main(run) }

// commands is the command line: global settings, then commands.
type commands struct {
	Options   cli.Options        `embed:""`
	Servers   app.Servers        `embed:""`
	Queues    app.QueueFlags     `embed:""`
	Sending   app.Outbox         `embed:""`
	Embedding embedding.Settings `embed:""`
	Settings  settings.Engine    `embed:""`
	Notify    app.Notify         `embed:"" group:"notifications"`

	Setup     setupCmd              `cmd:"" uses:"broker,queue,partitions,priorities,streams,stream-age,store,database,profiles,retries,types" help:"Create queues, collections, indexes and tables; idempotent."`
	Work      workCmd               `cmd:"" uses:"broker,queue,partitions,priorities,streams,partitions-of-worker,store,admin,profiles,folding,embedding,batching,worker,retries,hold,types" help:"Run the worker: consume, fold, write, acknowledge."`
	Ingest    outbox.IngestCmd      `cmd:"" uses:"database,broker,queue,partitions,priorities,streams,stream-age,retries,auto-setup,cleanup,admin,types" help:"Run the HTTP API: store events in the SQL outbox."`
	Relay     outbox.RelayCmd       `cmd:"" uses:"database,broker,queue,partitions,priorities,streams,stream-age,retries,auto-setup,cleanup,admin,types" help:"Run the relay: publish the outbox to RabbitMQ."`
	Stage     partitionCmd          `cmd:"" name:"partition" uses:"broker,admin,types" help:"Publish events that came without a slot to their partitions."`
	Streams   streams.Cmd           `cmd:"" name:"streams" uses:"broker,streams,store,profiles,types" help:"Show streams of events, have them read again, and accept those that changed."`
	Outbox    outbox.Cmd            `cmd:"" uses:"database,types" help:"Inspect and clean the outbox."`
	History   outbox.HistoryCmd     `cmd:"" uses:"database,types" help:"Count and prune the history of events."`
	Backfill  outbox.BackfillCmd    `cmd:"" uses:"database,broker,partitions,streams,types" help:"Publish events of the outbox that were never sent, at a bounded rate."`
	Products  profiles.ProductsCmd  `cmd:"" uses:"store,profiles,types" help:"Import the product catalogue, and learn vectors from the history."`
	User      profiles.UserCmd      `cmd:"" uses:"store,profiles,types" help:"Show, export, rebuild and erase profiles."`
	Recommend recommending.Cmd      `cmd:"" uses:"store,database,profiles,folding,embedding,types" help:"Recommend products to a user, and say why."`
	Serve     recommending.ServeCmd `cmd:"" uses:"store,database,profiles,folding,embedding,admin,types" help:"Run the HTTP API that reads: profiles, and products for users."`
	Eval      profiles.EvalCmd      `cmd:"" uses:"database,store,profiles,folding,embedding,batching,types" help:"Ask the history of events what fresh profiles are worth, and which settings find more."`
	Embed     profiles.EmbedCmd     `cmd:"" uses:"store,profiles,embedding" help:"Embed a phrase and show its nearest products."`
	Bench     bench.Cmd             `cmd:"" uses:"broker,partitions,streams,store,profiles,types" help:"Measure the running system: publish events of users of its own, and see when they are in profiles."`
	Status    status.Cmd            `cmd:"" uses:"broker,partitions,streams,store,database,profiles,retries,ledger" help:"Show queues, workers and backlogs on one screen, and what needs a person."`
	Dashboard status.DashboardCmd   `cmd:"" uses:"broker,partitions,streams,store,database,profiles,folding,embedding,batching,retries,ledger,rules,types" help:"Show what status prints, and the last 15 minutes, in a browser."`
	Failed    failures.Cmd          `cmd:"" uses:"broker,partitions,database,types" help:"List, retry and remove what failed, in the outbox and in the broker."`
	Dlq       failures.Dlq          `cmd:"" uses:"broker,partitions,types" hidden:"" help:"The former name of failed, for the broker alone."`

	Notifications notifications.Cmd `cmd:"" name:"notify" help:"Decide notifications: now, later or never."`

	Config     config.Cmd        `cmd:"" whole:"" uses:"broker,queue,partitions,priorities,streams,stream-age,partitions-of-worker,store,database,auto-setup,cleanup,admin,profiles,folding,embedding,batching,worker,retries,hold,ledger,ledger-owner,rules,repeats,links,taste,retention,types" help:"Check and show the settings."`
	Version    cli.VersionCmd    `cmd:"" help:"Print the version."`
	Completion cli.CompletionCmd `cmd:"" help:"Print the script for completion in a shell."`
}

var commandLine = cli.Program{
	Name: "keyfold",
	Description: `Keeps one vector per user fresh: user events from RabbitMQ, profiles in MongoDB.

Examples:
  keyfold setup                      queues, collections, indexes; idempotent
  keyfold work                       the worker
  keyfold embed "wireless headphones"
  keyfold products import shop.ndjson --embed
  keyfold status                     what needs a person
  keyfold user show 17
  keyfold recommend 17
  keyfold user forget 17

A command's --help shows the settings that it uses. Every setting is an environment variable
and a flag: "keyfold help settings" lists them all, "keyfold config show" those in force.`,
	LogLevel: "info", LogFormat: "auto",
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, s cli.Streams) int {
	var c commands
	return commandLine.Run(&c, args, s, func(command *kong.Context) error {
		a, err := c.app(ctx, s)
		for _, w := range slices.Concat(settings.Unknown(command, os.Environ()), a.Config.Warnings, a.Vectors.Warnings) {
			a.Log.Warn(w.Text, slog.String("variable", w.Variable), slog.String("hint", w.Hint))
		}
		if err := cli.Check(command, a, err); err != nil {
			return err
		}
		a.Config.Limit()
		if s.Stderr == os.Stderr { // a test's command is one of several in its process
			settings.BridgeLibraries(a.Log)
		}
		return a.Clock.Run(ctx, a.Log, func() error { return command.Run(a) })
	})
}

// app returns what a command works with, also where settings have faults: those
// that are wrong are at their defaults, and the error names them all.
func (c *commands) app(ctx context.Context, s cli.Streams) (*app.App, error) {
	log, level, logErr := c.Options.Log.Logger(s.Stderr)
	config, engineErr := c.Settings.Config()
	// A number out of range is told once.
	embeddings, embeddingErr := c.Embedding.Config(config.TextDimensions(), config.Learned)
	config.Processor.Model = embeddings.Model
	queues, queuesErr := c.Queues.Queues()
	embeddings.Failures = config.Retry.Attempts + 1
	return &app.App{
		Console:  c.Options.Console(s),
		Ctx:      ctx,
		Clock:    shutdown.NewClock(config.Timeout),
		Servers:  c.Servers,
		Queues:   queues,
		Outbox:   c.Sending,
		Vectors:  embeddings,
		Notify:   c.Notify,
		Config:   config,
		Log:      log,
		LogLevel: level,
	}, errors.Join(logErr, engineErr, c.Servers.Check(), c.Sending.Check(), queuesErr, embeddingErr)
}
