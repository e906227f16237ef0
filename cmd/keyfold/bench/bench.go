// Package bench measures a running system from the outside.
package bench

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/report"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
)

// firstUser is the lowest id of the users that events are made for.
const firstUser = 2_100_000_000

// Cmd publishes events to a running system and measures when they are in profiles.
type Cmd struct {
	Rate      cli.Rate      `default:"20/s" placeholder:"N/s" help:"Events a second."`
	For       time.Duration `default:"1m" help:"How long to publish."`
	Users     int           `default:"100" help:"Users the events are spread over."`
	Wait      time.Duration `default:"2m" help:"How long to wait for the last events after that."`
	Processes []int         `placeholder:"PID" help:"Processes of this machine to look at, by their ids: memory and processor time."`
	Clean     bool          `help:"Measure nothing: erase the users of earlier measurements."`

	cli.Confirmation `embed:""`
	report.Flags     `embed:""`
}

// Help is the long text.
func (c *Cmd) Help() string {
	return `It publishes views, clicks and purchases of stored products to the queue that the workers consume, or to the streams
that they read where RABBITMQ_STREAMS is set, waits until they are in profiles, and says how long that took from when
each was due. It needs running workers and imported products. No search is made: it might cost a request of the
embedding API.

Only users from 2100000000 on are written, with message ids that begin with bench-. Workers drop the events of
an erased user for ever, so each call takes new users, behind all that the store has, erased ones included.

Where the queue is not empty, or no process consumes from it, the events would wait: it is refused without --yes.
--clean erases the users whose newest event has a bench- id, and discards their dead letters. It asks, unless --yes
is given; --dry-run says what would be erased.

The exit code is 1 where a criterion is not met. The load of this machine counts: where it is above 2 for each core
at the start, figures are marked, there is no verdict, and the exit code is 0. A broker that goes away meanwhile is
waited for, for 2 minutes at most.

Examples:
  keyfold bench
  keyfold bench --rate 200/s --for 5m --report bench.html
  keyfold bench --clean`
}

// Check judges the flags and the addresses of the servers.
func (c *Cmd) Check(a *app.App) error {
	faults := []error{a.CheckBroker(), a.CheckStore(), c.CheckFile()}
	switch {
	case c.Clean:
		faults = append(faults, a.CheckConfirm(c.Confirmation))
	case c.DryRun:
		faults = append(faults, errors.New("--dry-run goes with --clean: say --clean too, or leave it out"))
	}
	for _, pid := range c.Processes {
		if _, err := report.UsageOf(pid); err != nil {
			faults = append(faults, fmt.Errorf("--processes %d: %w", pid, err))
		}
	}
	if c.Users < 1 || c.Users > math.MaxInt32-firstUser {
		faults = append(faults, fmt.Errorf("--users %d: it must be from 1 to %d", c.Users, math.MaxInt32-firstUser))
	}
	if c.For <= 0 || c.Wait <= 0 || c.events() < 1 {
		faults = append(faults, fmt.Errorf("--rate %v/s, --for %v, --wait %v: both times must be above 0, and long enough for an event", float64(c.Rate), c.For, c.Wait))
	}
	return errors.Join(faults...)
}

func (c *Cmd) events() int { return int(float64(c.Rate) * c.For.Seconds()) }

// Run measures, or erases.
func (c *Cmd) Run(a *app.App) error {
	store, err := a.OpenChecked(a.Ctx)
	if err != nil {
		return err
	}
	if c.Clean {
		err = c.clean(a, store)
	} else {
		err = c.measure(a, store)
	}
	return errors.Join(err, store.Close())
}

func (c *Cmd) measure(a *app.App, store *mongodb.Store) error {
	partitions, err := a.CheckQueues()
	if err != nil {
		return err
	}
	if err := c.checkQueue(a, partitions); err != nil {
		return err
	}
	m := &measurement{Cmd: c, app: a, store: store, partitions: partitions, types: eventTypes(), mark: rand.Text()[:8], due: map[profile.AppliedID]time.Time{}, toProfile: report.NewLatencies()}
	if err := m.prepare(); err != nil {
		return err
	}
	r, err := m.report()
	if err != nil {
		return err
	}
	if err := m.run(r); err != nil {
		return fmt.Errorf("%w\nNot measured; users %s may be written: `keyfold bench --clean` erases them", err, m.written())
	}
	return c.Write(&a.Console, r)
}

// checkQueue says why events would wait in the queue, unless --yes is given.
func (c *Cmd) checkQueue(a *app.App, partitions int) error {
	waiting, consumers, err := rabbit.Consumed(a.Ctx, a.Servers.RabbitMQ, partitions)
	switch {
	case err != nil:
		return app.BrokerUnreached(err)
	case c.Yes:
		return nil
	}
	var faults []error
	if waiting > 0 {
		faults = append(faults, fmt.Errorf("%s in the queue: the events would wait behind them, and the figures would say so. "+
			"Wait until `keyfold status` shows an empty queue, or repeat it with --yes", cli.Count(int64(waiting), "message")))
	}
	if consumers == 0 {
		faults = append(faults, errors.New("no process consumes from the queue: start `keyfold work`, or repeat it with --yes"))
	}
	return errors.Join(faults...)
}
