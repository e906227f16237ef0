// Command keyfold is the daemon and the tools around it: events from RabbitMQ
// become profiles in MongoDB.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"keyfold/cmd/settings"
	"keyfold/cmd/shutdown"
	"keyfold/cmd/terminal"
	"keyfold/engine"
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
	Output string `name:"output" short:"o" enum:"text,json" default:"text" help:"text or json."`

	Log       settings.Log       `embed:""`
	Servers   settings.Servers   `embed:""`
	Database  settings.Database  `embed:""`
	Embedding settings.Embedding `embed:""`
	Settings  settings.Engine    `embed:""`

	Setup    setupCmd    `cmd:"" uses:"broker,queue,store,database,profiles,retries" help:"Create queues, collections, indexes and tables; idempotent."`
	Work     workCmd     `cmd:"" uses:"broker,queue,store,admin,profiles,folding,embedding,batching,worker,retries,hold" help:"Run the worker: consume, fold, write, acknowledge."`
	Ingest   ingestCmd   `cmd:"" uses:"database,broker,admin" help:"Run the HTTP API: store events in the SQL outbox."`
	Relay    relayCmd    `cmd:"" uses:"database,broker,admin" help:"Run the relay: publish the outbox to RabbitMQ."`
	Outbox   outboxCmd   `cmd:"" uses:"database" help:"Inspect and clean the outbox."`
	Backfill backfillCmd `cmd:"" uses:"database,broker" help:"Publish events of the outbox that were never sent, at a bounded rate."`
	Products productsCmd `cmd:"" uses:"store,profiles,embedding" help:"Import the product catalogue."`
	User     userCmd     `cmd:"" uses:"store,profiles" help:"Show, export, rebuild and erase profiles."`
	Embed    embedCmd    `cmd:"" uses:"store,profiles,embedding" help:"Embed a phrase and show its nearest products."`
	Dlq      dlqCmd      `cmd:"" uses:"broker" help:"List, replay and discard dead letters."`
}

const description = `Keeps one vector per user fresh: user events from RabbitMQ, profiles in MongoDB.

Examples:
  keyfold setup                      queues, collections, indexes; idempotent
  keyfold work                       the worker
  keyfold embed "wireless headphones"
  keyfold products import shop.ndjson --embed
  keyfold user show 17
  keyfold user forget 17

A command's --help shows the settings that it uses. Every setting is an environment variable
and a flag; docs/SETTINGS.md lists them all.`

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	var c cli
	exited := -1
	parser, err := newParser(&c, s, func(code int) { exited = code })
	if err != nil {
		return report(s, err, exitFailure)
	}
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help was answered
	}
	if err != nil {
		return report(s, fmt.Errorf("%w (see %s --help)", err, commandOf(err)), exitUsage)
	}
	a, err := c.app(ctx, s)
	if command, ok := command.Selected().Target.Addr().Interface().(checker); ok {
		err = errors.Join(err, command.check(a))
	}
	if err != nil {
		return report(s, fmt.Errorf("not started:\n%w", err), exitUsage)
	}
	a.config.Limit()
	return report(s, a.clock.Run(ctx, s.stderr, func() error { return command.Run(a) }), exitFailure)
}

func newParser(c *cli, s streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, kong.Name("keyfold"), kong.Description(description),
		settings.LogDefaults("info", "json"), kong.Writers(s.stdout, s.stderr), kong.Exit(exit), kong.Help(settings.Help))
}

// commandOf returns as much of the command as was understood when err came.
func commandOf(err error) string {
	if fault, ok := errors.AsType[*kong.ParseError](err); ok {
		if command := fault.Context.Selected(); command != nil {
			return command.FullPath()
		}
	}
	return "keyfold"
}

// app returns what a command works with, also where settings have faults: those
// that are wrong are at their defaults, and the error names them all.
func (c *cli) app(ctx context.Context, s streams) (*app, error) {
	log, logErr := c.Log.Logger(s.stderr)
	config, engineErr := c.Settings.Config()
	// A number out of range is told once.
	embeddings, embeddingErr := c.Embedding.Config(max(1, min(config.Taste.Dimensions, engine.MaxDimensions)))
	config.Taste.Model = embeddings.Model
	embeddings.Failures = config.Retry.Attempts + 1
	return &app{
		ctx:      ctx,
		clock:    shutdown.NewClock(config.Timeout),
		streams:  s,
		json:     c.Output == "json",
		servers:  c.Servers,
		database: c.Database,
		vectors:  embeddings,
		config:   config,
		log:      log,
	}, errors.Join(logErr, engineErr, c.Servers.Check(), embeddingErr)
}

// report prints an error and returns its exit code, or 0 for none.
func report(s streams, err error, code int) int {
	if err == nil {
		return 0
	}
	shutdown.Print(s.stderr, fmt.Sprintf("keyfold: %v\n", err))
	return code
}

// app is what every command works with.
type app struct {
	streams
	ctx      context.Context //nolint:containedctx // a program's, from main to its commands
	clock    *shutdown.Clock // of its end
	json     bool
	servers  settings.Servers
	database settings.Database
	vectors  settings.EmbeddingConfig
	config   settings.Config
	log      *slog.Logger
}

// progress shows how far a job is, and stays out of the way of -o json.
func (a *app) progress(what string, total int64, done func() int64) *terminal.Progress {
	w := a.stderr
	if a.json {
		w = io.Discard
	}
	return terminal.NewProgress(w, what, total, done)
}

// emit writes a command's answer: value as JSON, or what text writes.
func (a *app) emit(value any, text func(w *terminal.Text)) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(value)
	}
	w := &terminal.Text{W: a.stdout}
	text(w)
	return w.Err
}
