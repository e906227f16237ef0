package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"keyfold/cmd/cli"
	"keyfold/shard"
	"keyfold/source/sample"
)

// runCmd folds what it is given, then serves unless told to exit.
type runCmd struct {
	Events     string `name:"events" placeholder:"FILE" help:"NDJSON events, plain or gzip; - for stdin."`
	Products   string `name:"products" placeholder:"FILE" help:"NDJSON products to import first; those without a vector are embedded offline."`
	NoProducts bool   `name:"no-products" help:"Explicitly allow a run without a catalogue: product events are skipped."`
	Sample     int    `name:"sample" placeholder:"N" help:"Generate N sessions of a small shop instead."`
	Realtime   bool   `name:"realtime" help:"Replay at the log's own pace; windows run on the wall clock."`
	Exit       bool   `name:"exit" help:"Exit when the input is folded, instead of serving HTTP."`
	Addr       string `name:"http-addr" env:"HTTP_ADDR" default:"127.0.0.1:7080" help:"Listen address of POST /v1/events."`

	serveOnly bool // of `serve`
}

// Service marks a command that runs until it is told to stop.
func (c *runCmd) Service() {}

// demoSessions is the sample of a run without input: some seconds' work.
const demoSessions = 2000

// Check refuses what cannot be run, and completes a run that names no input.
func (c *runCmd) Check(*app) error {
	if c.Events == "" && c.Sample == 0 && !c.serveOnly {
		c.Sample, c.Exit = demoSessions, true
	}
	switch {
	case c.Sample < 0 || c.Sample > 1_000_000:
		return fmt.Errorf("--sample %d: it must be between 1 and 1000000 sessions", c.Sample)
	case c.Events != "" && c.Sample > 0:
		return errors.New("--events and --sample exclude each other: give one of them")
	case !c.Exit:
		return checkAddr(c.Addr)
	}
	return nil
}

// Run is the main job.
func (c *runCmd) Run(a *app) (err error) {
	// The input is opened before the folder, so that a mistyped name leaves
	// nothing behind.
	next, closeInput, bar, err := c.input(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeInput()) }()
	var listener net.Listener
	if !c.Exit {
		if listener, err = listen(c.Addr); err != nil {
			return err
		}
		defer listener.Close()
	}
	n, err := openRuntime(a)
	if err != nil {
		return err
	}
	if err := errors.Join(c.products(n), c.catalogued(n), c.intake(n)); err != nil {
		return errors.Join(err, n.close())
	}
	began := time.Now()
	events, interrupted, err := c.replay(n, next, bar)
	if err != nil || interrupted || c.Exit {
		return c.finish(n, events, began, interrupted, err)
	}
	err = serve(n, c.Addr, listener)
	return c.finish(n, events, began, false, err)
}

// intake opens the way of posts, which a job that serves none needs where an
// earlier one left some.
func (c *runCmd) intake(n *runtime) (err error) {
	if _, absent := os.Stat(filepath.Join(n.data, outboxName)); !c.Exit || absent == nil {
		n.intake, err = openHTTPIngest(n)
	}
	return err
}

// finish stops the runtime and reports: the figures are true only once every
// verdict is durable.
func (c *runCmd) finish(n *runtime, events int, began time.Time, interrupted bool, err error) error {
	if err == nil && !interrupted {
		err = c.fault(n, n.idle())
	}
	if err := errors.Join(err, n.quiesce()); err != nil {
		return errors.Join(err, n.closeFile())
	}
	s, err := n.summary(events, time.Since(began))
	if err == nil {
		err = s.print(n.app)
	}
	if interrupted {
		err = errors.Join(err, errors.New("interrupted: what was read is kept; run the same command again to go on"))
	}
	return errors.Join(err, n.closeFile())
}

// input opens what the command line names; next is nil where it names nothing.
func (c *runCmd) input(a *app) (next source, closeInput func() error, bar *cli.Progress, err error) {
	switch {
	case c.Events != "":
		in, err := cli.OpenInput(c.Events, a.Stdin)
		if err != nil {
			return nil, nil, nil, err
		}
		return in.Next, in.Close, a.Progress("folding "+in.Name, in.Size, in.Read), nil
	case c.Sample > 0:
		all := sample.Events(sample.DefaultConfig(c.Sample))
		return bodies(all), func() error { return nil }, a.Progress("folding a sample", int64(len(all)), nil), nil
	default:
		return nil, func() error { return nil }, nil, nil
	}
}

// products puts the catalogue into the store before the first event needs it.
func (c *runCmd) products(n *runtime) error {
	switch {
	case c.Products != "":
		_, err := importFile(n.app, n.file, c.Products, true)
		return err
	case c.Sample > 0:
		_, err := importAll(n.app, n.file, sampleProducts(), n.Progress("embedding products", 0, nil), true)
		return err
	default:
		return nil
	}
}

// catalogued refuses to read a file into a store without products: each of its
// product events would be skipped, for good.
func (c *runCmd) catalogued(n *runtime) error {
	if c.Events == "" || c.NoProducts {
		return nil
	}
	count, err := n.file.CountProducts(n.ctx)
	if err == nil && count == 0 {
		err = &cli.UsageError{Err: fmt.Errorf("%s has no products, and product events without their product are skipped for good: "+
			"add --products FILE, or --no-products to fold searches only", n.data)}
	}
	return err
}

// replay recovers what an earlier process left and folds the input.
func (c *runCmd) replay(n *runtime, next source, bar *cli.Progress) (events int, interrupted bool, err error) {
	clock := shard.EventClock
	if c.Realtime || next == nil {
		clock = shard.WallClock
	}
	if err := n.start(clock); err != nil {
		return 0, false, err
	}
	ctx, cancel := context.WithCancelCause(n.ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.failed, func() { cancel(context.Cause(n.failed)) })()
	err = n.inbox.Recover(ctx, n.deliver)
	if err == nil && n.intake != nil {
		err = n.intake.recover(ctx)
	}
	if err != nil {
		return 0, n.ctx.Err() != nil, c.fault(n, err)
	}
	if next == nil {
		return 0, false, nil
	}
	r := replay{runtime: n, next: next, progress: bar.At}
	if c.Realtime {
		r.pace = &realtimeReplay{}
	}
	err = r.run(ctx)
	bar.Done()
	if err = c.fault(n, err); err != nil || n.ctx.Err() != nil {
		return r.events, n.ctx.Err() != nil, err
	}
	// The windows of the replay close here; retries and HTTP go on in real time.
	return r.events, false, n.start(shard.WallClock)
}

// fault returns err unless it only says that the program was told to stop.
func (c *runCmd) fault(n *runtime, err error) error {
	if cause := context.Cause(n.failed); cause != nil {
		return cause
	}
	select {
	case <-n.ctx.Done():
		return nil
	default:
		return err
	}
}
