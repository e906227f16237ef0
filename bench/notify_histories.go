package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/internal/report"
	"keyfold/proof/notifyoracle/history"
)

type historiesCmd struct {
	Count   uint64 `default:"100000" help:"How many histories."`
	First   uint64 `default:"0" help:"The number of the first one: a history follows from its number."`
	Workers int    `default:"0" help:"How many goroutines; 0: one per core."`
	New     string `enum:"half,all,none" default:"half" help:"How many histories have limits, topics, follow-ups, cancellation, replacement and what users open too: half, all or none."`
	Trace   bool   `help:"Print each decision, on one goroutine."`
}

var shares = map[string]history.Share{"half": history.Half, "all": history.All, "none": history.None}

// chunk is how many histories in a row a worker takes: those that share their sets.
const chunk = 1024

// maxFaults is how many differences are printed.
const maxFaults = 5

// proof is a run of histories.
type proof struct {
	historiesCmd
	next, done, decisions, differences atomic.Uint64

	mu     sync.Mutex
	faults []error // the first maxFaults
}

// Run compares the histories.
func (c *historiesCmd) Run(ctx context.Context, r *report.Report) error {
	return c.run(ctx, r, os.Stdout, os.Stderr)
}

// run reports what was compared, and prints a trace, and the progress and the first differences
// beside it.
func (c *historiesCmd) run(ctx context.Context, r *report.Report, out, progress io.Writer) error {
	p := &proof{historiesCmd: *c}
	if p.Workers <= 0 {
		p.Workers = runtime.GOMAXPROCS(0)
	}
	var trace io.Writer
	if p.Trace {
		trace, p.Workers = out, 1
	}
	began := time.Now()
	stop := p.showProgress(progress, began)
	var group sync.WaitGroup
	for range p.Workers {
		group.Go(func() { p.work(ctx, trace) })
	}
	group.Wait()
	stop()
	for _, fault := range p.faults {
		fmt.Fprintln(progress, fault)
	}
	r.Add("histories", "", float64(p.done.Load()))
	r.Add("decisions", "", float64(p.decisions.Load()))
	r.Add("differences", "", float64(p.differences.Load()))
	r.Add("took", "s", time.Since(began).Seconds())
	r.Add("rate", "histories/s per core", float64(p.done.Load())/time.Since(began).Seconds()/float64(p.Workers))
	if len(p.faults) > 0 {
		return errors.New("the laws and the oracle differ: run one history again with --first NUMBER --count 1 --trace")
	}
	return ctx.Err()
}

func (p *proof) work(ctx context.Context, trace io.Writer) {
	world, err := history.New()
	if err != nil {
		p.fail(err)
		return
	}
	world.Trace, world.Draw.New = trace, shares[p.New]
	for ctx.Err() == nil {
		from := p.next.Add(chunk) - chunk
		if from >= p.Count {
			return
		}
		for i := from; i < min(from+chunk, p.Count) && ctx.Err() == nil; i++ {
			decisions, err := world.Run(p.First + i)
			p.decisions.Add(uint64(decisions))
			p.done.Add(1)
			if err != nil {
				p.fail(err)
			}
		}
	}
}

func (p *proof) fail(err error) {
	p.differences.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, err)
	}
}

// showProgress keeps a line on the terminal until the function it returns is called.
func (p *proof) showProgress(progress io.Writer, began time.Time) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(progress, "\r\033[K")
				return
			case <-ticker.C:
				done := p.done.Load()
				fmt.Fprintf(progress, "\r%d of %d histories, %d differences, %.0f/s", done, p.Count, p.differences.Load(),
					float64(done)/time.Since(began).Seconds())
			}
		}
	}()
	return func() { close(quit); <-ended }
}
