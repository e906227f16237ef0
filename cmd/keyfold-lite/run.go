package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"keyfold/internal/cli"
	"keyfold/shard"
)

// runCmd folds what it is given, then serves unless told to exit.
type runCmd struct {
	Events     string `name:"events" placeholder:"FILE" help:"NDJSON events, plain or gzip; - for stdin."`
	Products   string `name:"products" placeholder:"FILE" help:"NDJSON products to import first; those without a vector are embedded offline."`
	NoProducts bool   `name:"no-products" help:"Explicitly allow a run without a catalogue: product events are skipped."`
	Sample     int    `name:"sample" placeholder:"N" help:"Generate N sessions of a small shop instead."`
	Realtime   bool   `name:"realtime" help:"Replay at the log's own pace; windows run on the wall clock."`
	Exit       bool   `name:"exit" help:"Exit when the input is folded, instead of serving HTTP."`
	Strict     bool   `name:"strict" help:"Exit with 1 if an event was dead: malformed, or impossible to fold."`
	Addr       string `name:"http-addr" env:"HTTP_ADDR" default:"127.0.0.1:7080" help:"Listen address of the HTTP API."`

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
	in, err := c.input(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	var listener net.Listener
	if !c.Exit {
		if listener, err = listen(c.Addr); err != nil {
			return err
		}
		defer listener.Close()
		c.Addr = listener.Addr().String()
	}
	n, err := openRuntime(a)
	if err != nil {
		return err
	}
	if err := errors.Join(c.products(n), c.catalogued(n), c.intake(n)); err != nil {
		return errors.Join(err, n.close())
	}
	began := time.Now()
	interrupted, err := c.replay(n, in)
	if err != nil || interrupted || c.Exit {
		return c.finish(n, began, interrupted, err)
	}
	var folded *summary // nil: there was nothing to fold before
	if in.next != nil {
		if folded, err = c.report(n, began); err != nil {
			return errors.Join(n.stop(err), n.closeFile())
		}
	}
	began = time.Now()
	stop := n.activity(!a.JSON)
	err = serve(n, c.Addr, listener)
	stop()
	return c.finishServing(n, folded, began, err)
}

// intake opens the way of posts, which a job that serves none needs where an
// earlier one left some.
func (c *runCmd) intake(n *runtime) (err error) {
	if _, absent := os.Stat(filepath.Join(n.data, outboxName)); !c.Exit || absent == nil {
		n.intake, err = openHTTPIngest(n)
	}
	return err
}

// report waits for the verdicts on the input and prints what it amounts to.
func (c *runCmd) report(n *runtime, began time.Time) (*summary, error) {
	if err := c.fault(n, n.idle()); err != nil {
		return nil, err
	}
	s, err := n.summary(time.Since(began))
	if err == nil {
		err = s.print(n.app, c)
	}
	return s, err
}

// finish stops the runtime and reports: the figures are true only once every
// verdict is durable.
func (c *runCmd) finish(n *runtime, began time.Time, interrupted bool, err error) error {
	if err == nil && !interrupted {
		err = c.fault(n, n.idle())
	}
	if err := n.stop(err); err != nil {
		return errors.Join(err, n.closeFile())
	}
	s, err := n.summary(time.Since(began))
	if err == nil {
		err = s.print(n.app, c)
	}
	if interrupted {
		err = errors.Join(err, errors.New("interrupted: what was read is kept; run the same command again to go on"))
	}
	return errors.Join(err, c.judge(n), n.closeFile())
}

// finishServing stops the runtime and reports what came after folded.
func (c *runCmd) finishServing(n *runtime, folded *summary, began time.Time, err error) error {
	if err := n.stop(err); err != nil {
		return errors.Join(err, n.closeFile())
	}
	s, err := n.summary(time.Since(began))
	if err == nil {
		err = s.since(folded).printServed(n.app)
	}
	return errors.Join(err, c.judge(n), n.closeFile())
}

// judge is the error of --strict.
func (c *runCmd) judge(n *runtime) error {
	if dead := n.counts().Dead; c.Strict && dead > 0 {
		return fmt.Errorf("--strict: %s dead", cli.Count(dead, "event"))
	}
	return nil
}

// input is what is folded before the program serves.
type input struct {
	name  string
	next  source // nil: there is none
	line  func() int64
	close func() error
	bar   *cli.Progress
}

// input opens what the command line names.
func (c *runCmd) input(a *app) (*input, error) {
	nothing := func() error { return nil }
	switch {
	case c.Events != "":
		if c.Events == "-" { // OpenInput waits for the first byte
			a.say("folding standard input into %s", a.data)
		}
		in, err := cli.OpenInput(c.Events, a.Stdin)
		if err != nil {
			return nil, err
		}
		if c.Events != "-" {
			a.say("folding %s into %s", c.Events, a.data)
		}
		return &input{in.Name, in.Next, func() int64 { return in.Line }, in.Close, c.progress(a, "folding "+in.Name, in.Size, in.Read)}, nil
	case c.Sample > 0:
		a.say("generating a small shop with %s, and folding its events into %s", cli.Count(int64(c.Sample), "session"), a.data)
		all := sampleEvents(c.Sample)
		return &input{"the sample", bodies(all), func() int64 { return 0 }, nothing, c.progress(a, "folding a sample", int64(len(all)), nil)}, nil
	default:
		return &input{close: nothing}, nil
	}
}

// progress starts a bar, unless the input comes at its own pace: lines tell of
// that.
func (c *runCmd) progress(a *app, what string, total int64, done func() int64) *cli.Progress {
	if c.Realtime {
		return &cli.Progress{}
	}
	return a.Progress(what, total, done)
}

// products puts the catalogue into the store before the first event needs it.
func (c *runCmd) products(n *runtime) error {
	switch {
	case c.Products != "":
		_, err := importFile(n.app, n.file, c.Products, importOptions{embed: true})
		return err
	case c.Sample > 0:
		_, err := importAll(n.app, n.file, sampleProducts(), n.Progress("embedding products", 0, nil), importOptions{embed: true})
		return err
	default:
		return nil
	}
}

// catalogued refuses to read a file into a store without products: each of its
// product events would be skipped.
func (c *runCmd) catalogued(n *runtime) error {
	if c.Events == "" || c.NoProducts {
		return nil
	}
	count, err := n.file.CountProducts(n.ctx)
	if err == nil && count == 0 {
		err = &cli.UsageError{Err: fmt.Errorf("%s has no products, and product events without their product are skipped: "+
			"add --products FILE, or --no-products to fold searches only", n.data)}
	}
	return err
}

// replay recovers what an earlier process left and folds the input.
func (c *runCmd) replay(n *runtime, in *input) (interrupted bool, err error) {
	clock := shard.EventClock
	if c.Realtime || in.next == nil {
		clock = shard.WallClock
	}
	if err := n.start(clock); err != nil {
		return false, err
	}
	if in.next != nil {
		defer n.activity(!n.JSON && !in.bar.Shown())()
	}
	ctx, cancel := context.WithCancelCause(n.ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.failed, func() { cancel(context.Cause(n.failed)) })()
	err = n.inbox.Recover(ctx, n.deliver)
	if err == nil && n.intake != nil {
		err = n.intake.recover(ctx)
	}
	if err != nil {
		return n.ctx.Err() != nil, c.fault(n, err)
	}
	if in.next == nil {
		return false, nil
	}
	r := replay{runtime: n, input: in}
	if c.Realtime {
		r.pace = &realtimeReplay{}
	}
	err = r.run(ctx)
	in.bar.Done()
	if err = c.fault(n, err); err != nil || n.ctx.Err() != nil {
		return n.ctx.Err() != nil, err
	}
	// The windows of the replay close here; retries and HTTP go on in real time.
	return false, n.start(shard.WallClock)
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
