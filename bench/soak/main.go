// Command soak drives real processes through seeded faults, and compares every
// profile with an oracle that folds one event at a time: nothing lost, nothing
// twice.
//
// It starts a private RabbitMQ, a test store and one to three workers, publishes
// real and generated events with a tenth of them twice, out of order and with
// one in a hundred broken, and kills, stops, silences and slows down whatever
// takes part, by a plan that depends on the seed only. In the end the queues have
// to be empty, every profile the oracle's, and the dead letters the broken
// events.
//
// Processes do not run by a seed: the plan of a failed run is repeated exactly,
// the moment within a window that a kill meets is not.
//
// It runs against a real store where --mongodb-uri (or MONGODB_TEST_URI) names
// one, in a database of its own that it leaves behind; kills of the store, lost
// replies and failovers are left out then, and are the operator's to bring:
//
//	go run ./bench/soak --mongodb-uri 'mongodb://a,b,c/?replicaSet=rs0' --duration 45m
//
// What it cannot prove: that a machine without power keeps what its disk said it
// had (SIGKILL leaves the kernel's buffers alone), and that a real replica set
// rolls back as the test store does. One broker node is killed and comes back; a
// cluster's partitions are not played.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	Seed     uint64        `help:"Of the plan and the events; 0: a new one, which is printed."`
	Duration time.Duration `default:"45m" help:"How long faults are brought. 45m is 220 kills; other durations have their share."`
	Workers  int           `default:"3" help:"Workers at most at once, 1 to 8; scaling goes down to one."`
	Rate     int           `default:"50" help:"Events a second."`
	Directed bool          `help:"Instead of a plan: each failpoint once."`
	Scenario string        `placeholder:"NAME" help:"Instead of a plan: one fault, half of the events one user's: ${scenarios}."`
	Runs     int           `default:"1" help:"How often, each with the next seed."`
	Race     bool          `help:"Build the workers with the race detector."`

	Dimensions int    `default:"256" help:"Components of vectors."`
	MongoDB    string `name:"mongodb-uri" env:"MONGODB_TEST_URI" placeholder:"URI" help:"A real store, in a database of the run's own; without the faults only the test server knows."`
	Data       string `env:"KEYFOLD_TEST_DATA" placeholder:"DIR" help:"Folder of real event logs."`
	Keep       bool   `help:"Keep logs and data also where nothing is wrong."`
}

// wholeRun is the duration the long mix is made for.
const wholeRun = 45 * time.Minute

func (c *cli) settings(dir string, out io.Writer) settings {
	return settings{
		Seed: c.Seed, Duration: c.Duration, Workers: min(max(c.Workers, 1), 8), Rate: max(c.Rate, 1),
		Mix: longMix.over(float64(c.Duration) / float64(wholeRun)), Scenario: c.Scenario, Directed: c.Directed, AllPoints: c.Scenario == "",
		Race: c.Race, Dimensions: c.Dimensions, MongoDB: c.MongoDB, Data: c.Data, Dir: dir, Out: out,
	}
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("soak"), kong.Vars{"scenarios": scenarioNames()}, kong.Description("Nothing lost, nothing twice: real processes under seeded faults."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	for range max(c.Runs, 1) {
		if err = c.run(ctx, os.Stdout); err != nil {
			break
		}
		c.Seed++
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func (c *cli) run(ctx context.Context, out io.Writer) error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	if _, known := scenarios[c.Scenario]; c.Scenario != "" && !known {
		return fmt.Errorf("--scenario is %q: it must be one of %s", c.Scenario, scenarioNames())
	}
	dir, err := os.MkdirTemp("", "keyfold-soak-")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d, logs in %s\n", c.Seed, dir)
	result, err := run(ctx, c.settings(dir, out))
	if result != nil {
		result.report()
	}
	if err != nil {
		return fmt.Errorf("seed %d: %w\nlogs are in %s", c.Seed, err, dir)
	}
	fmt.Fprintln(out, "nothing lost, nothing twice")
	if c.Keep {
		return nil
	}
	return errors.Join(os.RemoveAll(dir))
}
