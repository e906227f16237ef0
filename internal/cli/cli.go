// Package cli is what keyfold's programs share towards their callers: the command
// line and its arguments, exit codes, streams, files to read, progress and figures
// to print.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
)

// Exit codes. A second signal ends the process with 128 + its number.
const (
	ExitFailure = 1
	ExitUsage   = 2
)

// UsageError says that a call can never work, whatever the servers do.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Main calls a program with the process's arguments and streams, and ends the
// process with its exit code. The context ends when the process is told to stop.
func Main(run func(ctx context.Context, args []string, s Streams) int) {
	ctx, release := shutdown.Signals()
	code := run(ctx, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr})
	release()
	os.Exit(code)
}

// Program describes a command line.
type Program struct {
	Name, Description   string
	LogLevel, LogFormat string // the defaults
}

// Parser returns the parser of a grammar, which calls exit after it has answered
// --help. Without arguments it knows all commands, see [calledOnly].
func (p Program) Parser(grammar any, args []string, s Streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(grammar, kong.Name(p.Name), calledOnly(grammar, args), settings.Defaults(grammar), kong.Description(p.Description),
		settings.LogDefaults(p.LogLevel, p.LogFormat), kong.Writers(s.Stdout, s.Stderr), kong.Exit(exit), kong.Help(settings.Help))
}

// Run reads the arguments into grammar and calls work with the command they name,
// unless it is [Plain] or they ask for help. It prints an error and returns the exit
// code.
func (p Program) Run(grammar any, args []string, s Streams, work func(*kong.Context) error) int {
	answered := false
	words := asFlag(args)
	parser, err := p.Parser(grammar, words, s, func(int) { answered = true })
	if err != nil {
		return p.report(s, err)
	}
	if len(args) > 0 && args[0] == completeArg {
		_ = settings.KnowEventTypes(os.Getenv("EVENT_TYPES")) // what is wrong in it is not for a shell to say
		return p.report(s, printCandidates(parser.Model, args[1:], s.Stdout))
	}
	if slices.Equal(args, helpSettings) {
		fmt.Fprintf(s.Stdout, "Every setting is a flag and an environment variable ($NAME). This is the help of\nthe command that checks all of them.\n\n")
	}
	command, err := parser.Parse(words)
	switch {
	case answered:
		return 0
	case err != nil && p.lacksCommand(parser.Model, args, err):
		p.Run(grammar, append(slices.Clone(args), "--help"), Streams{Stdout: s.Stderr, Stderr: s.Stderr}, nil)
		return ExitUsage
	case err != nil:
		return p.report(s, &UsageError{fmt.Errorf("%w (see %s --help)", err, p.commandOf(err))})
	}
	if plain, ok := command.Selected().Target.Addr().Interface().(Plain); ok {
		return p.report(s, plain.Answer(command, Console{s, wantsJSON(command)}))
	}
	return p.report(s, work(command))
}

// Plain is a command that reads no settings: it works whatever is wrong with them.
type Plain interface {
	Answer(command *kong.Context, c Console) error
}

var helpSettings = []string{"help", "settings"}

// asFlag turns "help COMMAND" into "COMMAND --help". "help settings" is the help of
// the command that uses all settings.
func asFlag(args []string) []string {
	if len(args) == 0 || args[0] != "help" {
		return args
	}
	if slices.Equal(args, helpSettings) {
		return []string{"config", "check", "--help"}
	}
	return append(slices.Clone(args[1:]), "--help")
}

// lacksCommand reports whether err came because the arguments end where a command
// is needed.
func (p Program) lacksCommand(app *kong.Application, args []string, err error) bool {
	fault, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return false
	}
	node := app.Node
	if n := fault.Context.Selected(); n != nil {
		node = n
	}
	return !node.Leaf() && (len(args) == 0 || args[len(args)-1] == node.Name)
}

// commandOf returns as much of the command as was understood when err came.
func (p Program) commandOf(err error) string {
	if fault, ok := errors.AsType[*kong.ParseError](err); ok {
		if command := fault.Context.Selected(); command != nil {
			return command.FullPath()
		}
	}
	return p.Name
}

func (p Program) report(s Streams, err error) int {
	if err == nil {
		return 0
	}
	shutdown.Print(s.Stderr, fmt.Sprintf("%s: %v\n", p.Name, err))
	if _, usage := errors.AsType[*UsageError](err); usage {
		return ExitUsage
	}
	return ExitFailure
}

// Checker is a command that judges what it was called with before it connects to
// anything: its flags, and the settings that it needs. A is what commands work with.
type Checker[A any] interface{ Check(a A) error }

// Service is a command that runs until it is told to stop.
type Service interface{ Service() }

// Check reports every fault of the settings and of the command's own check at once. A
// setting that was given as a flag is named by the flag too.
func Check[A any](command *kong.Context, a A, faults error) error {
	target := command.Selected().Target.Addr().Interface()
	if c, ok := target.(Checker[A]); ok {
		faults = errors.Join(faults, c.Check(a))
	}
	if faults == nil {
		return nil
	}
	text := byFlag(command, faults.Error())
	switch _, service := target.(Service); {
	case service:
		text = "not started:\n" + text
	case strings.Contains(text, "\n"):
		text = "nothing was done:\n" + text
	}
	return &UsageError{errors.New(text)}
}

// byFlag puts the flag before the variable in the faults of settings that were given
// as flags. A fault is a line that begins with the variable.
func byFlag(command *kong.Context, faults string) string {
	return variable.ReplaceAllStringFunc(faults, func(name string) string {
		if flag := settings.GivenFlag(command, name); flag != "" {
			return flag + " (" + name + ")"
		}
		return name
	})
}

var variable = regexp.MustCompile(`(?m)^[A-Z][A-Z0-9_]+\b`)

// Options are the flags of every program.
type Options struct {
	Output  string       `name:"output" short:"o" enum:"text,json" default:"text" help:"text or json."`
	Version versionFlag  `name:"version" help:"Print the version."`
	Log     settings.Log `embed:""`
}

// Console returns where a command reads and writes.
func (o Options) Console(s Streams) Console { return Console{s, o.Output == "json"} }

// Streams are what a program reads and writes.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Console is where a command reads and writes.
type Console struct {
	Streams
	JSON bool // answers are JSON
}

// Encoder writes JSON to the console in which no character commands a terminal.
func (c *Console) Encoder() *json.Encoder { return json.NewEncoder(settings.Escaped(c.Stdout)) }

// OpenInput opens a file, or standard input for "-".
func (c *Console) OpenInput(path string) (*Input, error) { return OpenInput(path, c.Stdin) }

// Tell writes a line to standard error.
func (c *Console) Tell(format string, args ...any) { fmt.Fprintf(c.Stderr, format+"\n", args...) }

// Emit writes a command's answer: value as JSON, or what text writes.
func (c *Console) Emit(value any, text func(w *Text)) error {
	if c.JSON {
		return c.Encoder().Encode(value)
	}
	w := &Text{W: c.Stdout}
	text(w)
	return w.Err
}
