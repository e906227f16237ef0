// Command mutations proves that the tests can fail: it takes one rule at a time out
// of a copy of the tree, and runs there what has to notice.
//
//	go run ./proof/mutations                 # those the simulation must notice
//	go run ./proof/mutations --by notify     # those the simulation of notifiers must notice
//	go run ./proof/mutations --by soak       # those the soak must notice
//	go run ./proof/mutations --by tests      # those that tests of one package must notice
//	go run ./proof/mutations --only dedup,generation -- go test ./engine/...
//
// It prints a table, and fails where a mutation was not caught, does not build, or
// where the tree fails without one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	By      string        `enum:"sim,notify,soak,tests,all" default:"sim" help:"Which mutations: those the simulation, that of notifiers, the soak or tests of one package must notice, or all (sim, notify, soak, tests, all)."`
	Only    []string      `help:"Only these rules, by name, whatever their --by."`
	Sim     string        `default:"env KEYFOLD_SIM_SCHEDULES=10000 KEYFOLD_SIM_DEEPS=1000 go test -count=1 -run Schedules$ ./proof/sim" help:"The simulation's command."`
	Notify  string        `default:"env KEYFOLD_SIM_NOTIFY_SCHEDULES=3000 go test -count=1 -run Schedules$ ./proof/notifysim" help:"The command of the simulation of notifiers."`
	Soak    string        `default:"go run ./proof/soak --duration 3m --seed 1" help:"The soak's command."`
	Timeout time.Duration `default:"30m" help:"Of one command."`
	Logs    string        `placeholder:"DIR" help:"Keep the commands' output here, one file each."`
	Command []string      `arg:"" optional:"" help:"Run this instead, after --."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("mutations"), kong.Description("Take one rule at a time out of a copy of the tree, and check that it is noticed."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// chosen returns the mutations to make.
func (c *cli) chosen() ([]mutation, error) {
	mutations, err := load()
	if err != nil {
		return nil, err
	}
	if len(c.Only) == 0 {
		return slices.DeleteFunc(mutations, func(m mutation) bool { return c.By != "all" && m.by != c.By }), nil
	}
	var all []mutation
	for _, name := range c.Only {
		at := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no mutation is called %q", name)
		}
		all = append(all, mutations[at])
	}
	return all, nil
}

// command returns what has to notice a mutation.
func (c *cli) command(m mutation) []string {
	switch {
	case len(c.Command) > 0:
		return c.Command
	case m.by == "tests":
		return append([]string{"go", "test", "-count=1"}, strings.Fields(m.tests)...)
	case m.by == "notify":
		return strings.Fields(c.Notify)
	case m.by == "soak":
		return strings.Fields(c.Soak)
	default:
		return strings.Fields(c.Sim)
	}
}

func (c *cli) run(ctx context.Context, out io.Writer) error {
	all, err := c.chosen()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MUTATION\tBY\tRESULT\tTIME\tRULE")
	var faults []error
	for _, m := range append(unmutated(all), all...) {
		result := c.try(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if result.fault != nil {
			faults = append(faults, fmt.Errorf("%s: %w", m.name, result.fault))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%s\n", m.name, m.by, result.text, result.time.Round(time.Second), m.rule)
	}
	return errors.Join(append([]error{table.Flush()}, faults...)...)
}

// unmutated returns the runs without a mutation: what fails anyway notices nothing.
func unmutated(all []mutation) (runs []mutation) {
	for _, m := range all {
		if m.by == "tests" {
			runs = append(runs, mutation{name: "none", by: m.by, tests: m.tests, rule: "the tree as it is"})
		}
	}
	for _, by := range []string{"sim", "notify", "soak"} {
		if slices.ContainsFunc(all, func(m mutation) bool { return m.by == by }) {
			runs = append(runs, mutation{name: "none", by: by, rule: "the tree as it is"})
		}
	}
	return runs
}

// result is what became of one mutation.
type result struct {
	text  string
	time  time.Duration
	fault error // set where that is not as it should be
}

func (c *cli) try(ctx context.Context, m mutation) (r result) {
	began := time.Now()
	defer func() { r.time = time.Since(began) }()
	dir, err := copyTree(".")
	if err != nil {
		return result{text: "not made", fault: err}
	}
	defer os.RemoveAll(dir)
	if err := m.apply(dir); err != nil {
		return result{text: "not made", fault: err}
	}
	if text, err := output(ctx, dir, []string{"go", "build", "./..."}, c.Timeout); err != nil {
		return result{text: "does not build", fault: fmt.Errorf("%w\n%s", err, text)}
	}
	text, err := output(ctx, dir, c.command(m), c.Timeout)
	if c.Logs != "" {
		if err := c.keep(m, text); err != nil {
			return result{text: "not kept", fault: err}
		}
	}
	switch caught := err != nil; {
	case caught == (m.patch != nil):
		return result{text: map[bool]string{true: "caught", false: "passes"}[caught]}
	case caught:
		return result{text: "FAILS", fault: fmt.Errorf("the tree fails as it is: %w\n%s", err, text)}
	default:
		return result{text: "NOT CAUGHT", fault: errors.New("nothing noticed that this rule is gone")}
	}
}

func (c *cli) keep(m mutation, text []byte) error {
	if err := os.MkdirAll(c.Logs, 0o755); err != nil {
		return err
	}
	return os.WriteFile(c.Logs+"/"+m.name+"-"+m.by+".log", text, 0o644)
}

// output runs a command in a directory and returns what it printed.
func output(ctx context.Context, dir string, command []string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Dir = dir
	// Without their paths the copies share what is compiled.
	run.Env = append(run.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -trimpath"))
	// A command that is told to stop stops what it has started.
	run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
	run.WaitDelay = 30 * time.Second
	return run.CombinedOutput()
}
