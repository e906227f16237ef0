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
//	go run ./proof/soak --mongodb-uri 'mongodb://a,b,c/?replicaSet=rs0' --duration 45m
//
// With --streams, half of the events go to streams, which all workers share and which are set
// back to their first offsets now and then.
//
// `go run ./proof/soak partitions` does it with partitions on RabbitMQ 4: workers are
// added and killed, the number of partitions changes, and `keyfold partition` is killed.
// It looks at the broker all the time: how long the partitions are unevenly spread after
// a change of the workers, and how long events wait for a worker.
//
// `go run ./proof/soak notify` does the same for notifications: it kills the API,
// workers, workers that have leased deferrals, RabbitMQ and PostgreSQL, and holds
// records, states and dispatches against the laws and the oracle of notifications.
//
// `go run ./proof/soak compose` runs docker-compose.yml, with each profile, and compares what comes of
// events and notifications while workers are scaled and cut off the network.
//
// What it cannot prove: that a machine without power keeps what its disk said it
// had (SIGKILL leaves the kernel's buffers alone), and that a real replica set
// rolls back as the test store does. One broker node is killed and comes back; a
// cluster's partitions are not played.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	Profiles   profilesCmd   `cmd:"" default:"withargs" help:"Profiles: RabbitMQ, workers, a store (default)."`
	Partitions partitionsCmd `cmd:"" help:"Profiles over partitions, on RabbitMQ 4: workers come and go, and the number of partitions changes."`
	Compose    composeCmd    `cmd:"" help:"docker-compose.yml, profile by profile, on an engine; .ci/compose brings one."`
	Notify     notifyCmd     `cmd:"" help:"Notifications: the API, RabbitMQ, workers, PostgreSQL."`
}

// profilesCmd is the soak of profiles.
type profilesCmd struct {
	Settings settings `embed:""`
	Runs     int      `default:"1" help:"How often, each with the next seed."`
	Keep     bool     `help:"Keep logs and data also where nothing is wrong."`
}

// wholeRun is the duration the long mix is made for.
const wholeRun = 45 * time.Minute

func main() {
	var c cli
	command := kong.Parse(&c, kong.Name("soak"), kong.Vars{"scenarios": scenarioNames()}, kong.Description("Nothing lost, nothing twice: real processes under seeded faults."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command.BindTo(ctx, (*context.Context)(nil))
	err := command.Run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// Run soaks so many times.
func (c *profilesCmd) Run(ctx context.Context) error {
	s := &c.Settings
	s.Workers, s.Rate, s.Out = min(max(s.Workers, 1), 8), max(s.Rate, 1), os.Stdout
	if s.Streams > 0 {
		longMix[rewind] = rewinds
	}
	s.Mix, s.AllPoints = longMix.over(float64(s.Duration)/float64(wholeRun)), s.Scenario == ""
	s.Seed = seedOr(s.Seed)
	for range max(c.Runs, 1) {
		if err := s.once(ctx, c.Keep); err != nil {
			return err
		}
		s.Seed++
	}
	return nil
}

// seedOr returns a seed, another one each time where it is 0.
func seedOr(seed uint64) uint64 {
	if seed == 0 {
		return uint64(time.Now().UnixNano()) % 1_000_000
	}
	return seed
}

// once soaks once.
func (c *settings) once(ctx context.Context, keep bool) error {
	if _, known := scenarios[c.Scenario]; c.Scenario != "" && !known {
		return fmt.Errorf("--scenario is %q: it must be one of %s", c.Scenario, scenarioNames())
	}
	return inFolder(c.Out, c.Seed, keep, nothingWrong, func(dir string) error {
		c.Dir = dir
		result, err := run(ctx, *c)
		if result != nil {
			result.report()
		}
		return err
	})
}

const nothingWrong = "nothing lost, nothing twice"

// inFolder soaks in a folder of its own, which is kept where something is wrong, and
// prints what a run shows in which nothing is.
func inFolder(out io.Writer, seed uint64, keep bool, shown string, soak func(dir string) error) error {
	dir, err := os.MkdirTemp("", "keyfold-soak-")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d, logs in %s\n", seed, dir)
	if err := soak(dir); err != nil {
		return fmt.Errorf("seed %d: %w\nlogs are in %s", seed, err, dir)
	}
	fmt.Fprintln(out, shown)
	if keep {
		return nil
	}
	return os.RemoveAll(dir)
}
