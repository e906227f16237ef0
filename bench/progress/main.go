// Command progress runs go test, and prints a line for each package that has ended:
// what go test says of it, the time since the start, and an estimate of what is left.
// Of tests that fail it prints all output.
//
//	go run ./bench/progress --name test -- -race -count=1 ./...
//
// The packages that took longest in the last run of the name start first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	Name    string   `required:"" help:"Of the run: its times are kept under this name, for the next one's estimate."`
	Without []string `placeholder:"PACKAGE" help:"Leave out packages whose tests import one of these."`
	Args    []string `arg:"" help:"Of go test: flags as -flag=value, then packages."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("progress"), kong.Description("Run go test with an estimate of the time that is left."))
	// A signal of the terminal reaches go test too, which ends then.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := c.run(ctx, os.Stdout)
	if err == nil {
		return
	}
	stop()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.Exited() {
		os.Exit(failed.ExitCode()) //nolint:gocritic // stop was called
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (c *cli) run(ctx context.Context, out io.Writer) error {
	first := slices.IndexFunc(c.Args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if first < 0 {
		return errors.New("no packages: name them after the flags of go test")
	}
	flags, patterns := c.Args[:first], c.Args[first:]
	all, err := list(ctx, patterns)
	if err != nil {
		return err
	}
	chosen, left := split(all, c.Without)
	if len(chosen) == 0 {
		return errors.New("no packages are left to test")
	}
	times := readTimes(c.Name)
	order(chosen, times.Packages)
	r := newReport(out, time.Now, times, chosen)
	r.begin(left)
	err = test(ctx, flags, chosen, r)
	r.finish()
	if err != nil {
		return err
	}
	if err := writeTimes(c.Name, r.times()); err != nil {
		fmt.Fprintf(out, "the times of this run are not kept: %v\n", err)
	}
	return nil
}

// test runs go test and feeds the report. The error is go test's end.
func test(ctx context.Context, flags []string, all []pkg, r *report) error {
	args := append([]string{"test", "-json"}, flags...)
	for _, p := range all {
		args = append(args, p.path)
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.Stderr = os.Stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	stop := r.tick(tickPause)
	decode := json.NewDecoder(events)
	for {
		var e event
		if err = decode.Decode(&e); err != nil {
			break
		}
		r.add(&e)
	}
	stop()
	if !errors.Is(err, io.EOF) {
		_, _ = io.Copy(io.Discard, events) // go test ends only once all is read
		err = fmt.Errorf("go test -json: %w", err)
	} else {
		err = nil
	}
	return errors.Join(command.Wait(), err)
}
