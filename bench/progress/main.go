// Command progress runs go test, and prints a line for each package that has ended:
// what go test says of it, the time since the start, and an estimate of what is left.
// Of tests that fail it prints all output. With --share the test programs share RabbitMQ
// brokers, which it starts when one asks. Their temporary files are in TMPDIR, or where
// that is not set in memory, if the machine has much of it. At the end it prints the processor time of the
// packages that took most, and of the whole.
//
//	go run ./bench/progress --name test -- -race -count=1 ./...
//
// times.json has the seconds of each package in an earlier run of that name, on 2
// cores: packages that take long start first. --record writes it anew.
package main

import (
	"context"
	_ "embed"
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

	"keyfold/internal/testserver/rabbittest"
)

type cli struct {
	Name    string   `required:"" help:"Of the run, in times.json."`
	Share   bool     `help:"Have the test programs share RabbitMQ brokers."`
	Without []string `placeholder:"PACKAGE" help:"Leave out packages whose tests import one of these."`
	Record  string   `placeholder:"FILE" help:"Write the times of this run, too, if it passes: bench/progress/times.json."`
	Args    []string `arg:"" help:"Of go test: flags as -flag=value, then packages."`
}

//go:embed times.json
var recorded []byte

func main() {
	if len(os.Args) > 2 && os.Args[1] == asWrapper {
		os.Exit(wrap(os.Args[2:], os.Stdout))
	}
	var c cli
	kong.Parse(&c, kong.Name("progress"), kong.Description("Run go test with an estimate of the time that is left."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.run(ctx, os.Stdout)
	stop()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.Exited() {
		os.Exit(failed.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (c *cli) run(ctx context.Context, out io.Writer) error {
	flags := c.Args[:max(0, slices.IndexFunc(c.Args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }))]
	chosen, left, err := packages(c.Args[len(flags):], c.Without)
	if err != nil {
		return err
	}
	times := map[string]map[string]float64{} // by the names of runs, then of packages
	if err := json.Unmarshal(recorded, &times); err != nil {
		return fmt.Errorf("times.json: %w", err)
	}
	r := newReport(out, time.Now, times[c.Name], chosen)
	r.begin(left)
	slices.SortStableFunc(chosen, func(a, b string) int { return int(r.open[b] - r.open[a]) })
	run := func(env []string) error { return test(ctx, env, slices.Concat(flags, chosen), r) }
	if c.Share {
		err = withBrokers(run, r)
	} else {
		err = run(os.Environ())
		r.finish(0)
	}
	if err == nil && c.Record != "" {
		times[c.Name] = r.times()
		text, _ := json.MarshalIndent(times, "", "  ")
		err = os.WriteFile(c.Record, append(text, '\n'), 0o644)
	}
	return err
}

// packages asks go list for the packages with tests: those to run, and those whose
// tests import one of without.
func packages(patterns, without []string) (chosen, left []string, err error) {
	command := exec.Command("go", append([]string{"list", "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`}, patterns...)...)
	command.Stderr = os.Stderr
	listed, err := command.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(listed)) {
		words := strings.Fields(line)
		path, program := strings.CutSuffix(words[0], ".test") // the program of a package's tests
		switch {
		case !program:
		case slices.ContainsFunc(without, func(w string) bool { return slices.Contains(words, w) }):
			left = append(left, path)
		default:
			chosen = append(chosen, path)
		}
	}
	if len(chosen) == 0 {
		err = errors.New("no package has tests to run")
	}
	return chosen, left, err
}

// withBrokers has the test programs of a run share brokers, and ends these after it.
func withBrokers(run func(env []string) error, r *report) error {
	brokers, err := rabbittest.Serve(temporary())
	if err != nil {
		return err
	}
	err = run(append(os.Environ(), brokers.Variable()))
	before := cpuOfChildren()
	brokers.Stop()
	r.finish((cpuOfChildren() - before).Seconds())
	return err
}

// test runs go test and feeds the report. The error is go test's end.
func test(ctx context.Context, env, args []string, r *report) error {
	wrapper, err := wrapperFlag()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-json", wrapper}, args...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // it then ends its tests
	command.Env, command.Stderr = env, os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	events := make(chan event)
	go func() {
		defer close(events)
		decode := json.NewDecoder(stdout)
		for {
			var e event
			if decode.Decode(&e) != nil {
				_, _ = io.Copy(io.Discard, stdout)
				return
			}
			events <- e
		}
	}()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				err := command.Wait()
				r.spent = cpuOf(command.ProcessState).Seconds()
				return err
			}
			r.add(e)
		case <-ticker.C:
			r.still()
		}
	}
}
