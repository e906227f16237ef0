// Command keyfold-lite is keyfold in one process with nothing to install: events
// from a file or over HTTP, profiles in one SQLite file, an offline embedder.
// Same engine, same laws.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"keyfold/internal/cli"
	"keyfold/internal/settings"
)

func main() { cli.Main(run) }

// commands is the command line: global settings, then commands.
type commands struct {
	Data     string          `name:"data" env:"KEYFOLD_DATA" default:"keyfold-data" placeholder:"DIR" help:"Folder of the SQLite files."`
	Options  cli.Options     `embed:""`
	Settings settings.Engine `embed:""`

	Run          runCmd          `cmd:"" default:"withargs" uses:"profiles,folding,batching,worker,types" help:"Fold events from a file, standard input or a generated sample, then serve (default)."`
	Serve        serveCmd        `cmd:"" uses:"profiles,folding,batching,worker,types" help:"Take events and recommend products over HTTP."`
	Products     productsCmd     `cmd:"" uses:"profiles,types" help:"Import the product catalogue, and learn vectors from events."`
	Rebuild      rebuildCmd      `cmd:"" uses:"profiles,folding,batching,worker,types" help:"Fold the events that were skipped because their product was unknown."`
	User         userCmd         `cmd:"" help:"Show, export and erase profiles."`
	Recommend    recommendCmd    `cmd:"" uses:"profiles,folding,types" help:"Recommend products to a user, and say why."`
	Notify       notifyCmd       `cmd:"" uses:"worker,rules" help:"Decide notifications: now, later or never."`
	Eval         evalCmd         `cmd:"" uses:"profiles,folding,batching,types" help:"Ask a log of events what fresh profiles are worth, and which settings find more."`
	EvalEndpoint evalEndpointCmd `cmd:"" name:"eval-endpoint" uses:"profiles,folding,types" help:"Ask the HTTP API what a log asks, beside popularity, the last product and item kNN."`
	Failed       deadCmd         `cmd:"" aliases:"dead" help:"List and show events that cannot be folded."`

	Config     configCmd         `cmd:"" whole:"" uses:"profiles,folding,batching,worker,retries,types" help:"Check and show the settings."`
	Version    cli.VersionCmd    `cmd:"" help:"Print the version."`
	Completion cli.CompletionCmd `cmd:"" help:"Print the script for completion in a shell."`
}

var commandLine = cli.Program{
	Name: "keyfold-lite",
	Description: `Folds user events into one vector per user, in one process: nothing to install.

Examples:
  keyfold-lite                                   try it on a generated sample
  keyfold-lite --events log.ndjson.gz --products shop.ndjson --exit
  tail -f events.ndjson | keyfold-lite --events - --realtime
  keyfold-lite serve                             events in, recommendations out, on 127.0.0.1:7080
  keyfold-lite user show 17
  keyfold-lite recommend 17
  keyfold-lite user export profiles.ndjson
  keyfold-lite failed list                       events that cannot be folded, and why
  keyfold-lite notify                            decide a sample week of notifications: now, later or never`,
	LogLevel: "error", LogFormat: "text",
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, s cli.Streams) int {
	var c commands
	return commandLine.Run(&c, args, s, func(command *kong.Context) error {
		log, _, logErr := c.Options.Log.Logger(s.Stderr)
		config, err := c.Settings.Config()
		config = config.WithoutBroker()
		config.Processor.Model = config.Learned.Model(embedderModel)
		a := &app{Console: c.Options.Console(s), ctx: ctx, data: c.Data, config: config, log: log}
		for _, w := range slices.Concat(settings.Unknown(command, os.Environ()), config.Warnings) {
			fmt.Fprintf(s.Stderr, "keyfold-lite: %s: %s: %s\n", w.Variable, w.Text, w.Hint)
		}
		if err := cli.Check(command, a, errors.Join(logErr, err)); err != nil {
			return err
		}
		config.Limit()
		if s.Stderr == os.Stderr { // a test's command is one of several in its process
			settings.BridgeLibraries(log)
		}
		return command.Run(a)
	})
}

// app is what every command works with.
type app struct {
	cli.Console
	ctx    context.Context
	data   string
	config settings.Config
	log    *slog.Logger
}
