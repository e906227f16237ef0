// Command keyfold-lite is keyfold in one process with nothing to install: events
// from a file or over HTTP, profiles in one SQLite file, an offline embedder.
// Same engine, same laws.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"keyfold/cmd/settings"
	"keyfold/cmd/shutdown"
	"keyfold/cmd/terminal"
)

// Exit codes. A second signal ends the process with 128 + its number.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, release := shutdown.Signals()
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	release()
	os.Exit(code)
}

// streams are what the program reads and writes.
type streams struct {
	in             io.Reader
	stdout, stderr io.Writer
}

// cli is the command line: global settings, then commands.
type cli struct {
	Data     string          `name:"data" env:"KEYFOLD_DATA" default:"keyfold-data" placeholder:"DIR" help:"Folder of the SQLite files."`
	Output   string          `name:"output" short:"o" enum:"text,json" default:"text" help:"text, or json: one object on standard output."`
	Log      settings.Log    `embed:""`
	Settings settings.Engine `embed:""`

	Run      runCmd      `cmd:"" default:"withargs" uses:"profiles,folding,batching,worker" help:"Fold events from a file, standard input or a generated sample, then serve (default)."`
	Serve    serveCmd    `cmd:"" uses:"profiles,folding,batching,worker" help:"Take events over HTTP."`
	Products productsCmd `cmd:"" uses:"profiles" help:"Import the product catalogue."`
	User     userCmd     `cmd:"" help:"Show, export and erase profiles."`
}

const description = `Folds user events into one vector per user, in one process: nothing to install.

Examples:
  keyfold-lite                                   try it on a generated sample
  keyfold-lite --events log.ndjson.gz --products shop.ndjson --exit
  tail -f events.ndjson | keyfold-lite --events - --realtime
  keyfold-lite serve                             POST /v1/events on 127.0.0.1:7080
  keyfold-lite user show 17
  keyfold-lite user export profiles.ndjson`

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c, kong.Name("keyfold-lite"), kong.Description(description),
		settings.LogDefaults("error", "text"), kong.Writers(s.stdout, s.stderr), kong.Exit(func(code int) { exited = code }),
		kong.Help(settings.Help))
	if err != nil {
		return report(s, err, exitFailure)
	}
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help was answered
	}
	if err != nil {
		return report(s, fmt.Errorf("%w (see keyfold-lite --help)", err), exitUsage)
	}
	log, logErr := c.Log.Logger(s.stderr)
	config, err := c.Settings.Config()
	if err = errors.Join(logErr, err); err != nil {
		return report(s, fmt.Errorf("settings:\n%w", err), exitUsage)
	}
	config = config.WithoutBroker()
	config.Taste.Model = embedderModel
	config.Limit()
	err = command.Run(&app{
		ctx:     ctx,
		streams: s,
		data:    c.Data,
		json:    c.Output == "json",
		config:  config,
		log:     log,
	})
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		return report(s, err, exitUsage)
	}
	return report(s, err, exitFailure)
}

// report prints an error and returns its exit code, or 0 for none.
func report(s streams, err error, code int) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(s.stderr, "keyfold-lite: %v\n", err)
	return code
}

// usageError is a call that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// app is what every command works with.
type app struct {
	streams
	ctx    context.Context
	data   string
	json   bool
	config settings.Config
	log    *slog.Logger
}

// progress shows how far a job is, and stays out of the way of -o json.
func (a *app) progress(what string, total int64, done func() int64) *terminal.Progress {
	w := a.stderr
	if a.json {
		w = io.Discard
	}
	return terminal.NewProgress(w, what, total, done)
}
