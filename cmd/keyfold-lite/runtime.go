package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/settings"
	"keyfold/service/profile/pipeline"

	"keyfold/shard"
	"keyfold/sink/sqlfile"
	"keyfold/sink/sqlite"
	"keyfold/source/inbox"
	"keyfold/source/vector"
)

// embedderModel is the only model of keyfold-lite: offline, lexical.
const embedderModel = vector.HashModel

// databaseName is the SQLite file inside the data folder.
const databaseName = "keyfold.db"

// runtime is a running keyfold-lite: the file, the inbox on it, and the pipeline
// that deliveries go to. A replay's pipeline runs on the events' clock and is
// exchanged for one on the wall clock when the replay ends.
type runtime struct {
	*app
	unlock func()
	file   *sqlite.File
	inbox  *inbox.Inbox
	ports  processor.Ports
	intake *httpIngest  // nil: nothing comes over HTTP
	events atomic.Int64 // read from the input

	// failed ends with the first fault that stops all work.
	failed context.Context
	fail   context.CancelCauseFunc

	exchange sync.RWMutex // locked while pipeline changes
	pipeline *pipeline.Pipeline
	done     []*pipeline.Pipeline // drained ones, for their counts
}

// openRuntime opens the data folder, and everything in it that an earlier process
// left unfinished is still to be recovered.
func openRuntime(a *app) (*runtime, error) {
	if err := os.MkdirAll(a.data, 0o750); err != nil {
		return nil, err
	}
	unlock, err := lockFolder(a.data)
	if err != nil {
		return nil, err
	}
	n := &runtime{app: a, unlock: unlock}
	n.failed, n.fail = context.WithCancelCause(context.WithoutCancel(a.ctx))
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.closeFile())
	}
	return n, nil
}

func (n *runtime) open() (err error) {
	c := n.config
	if n.file, err = openStore(n.app); err != nil {
		return err
	}
	if n.inbox, err = inbox.New(n.ctx, inbox.Ports{
		Writer:   writer{n.file},
		Reader:   n.file,
		Profiles: n.file,
		Log:      n.log,
	}, inbox.Config{RetryDelay: c.Retry.Delay, MaxRetries: c.Retry.Attempts}); err != nil {
		return settings.Named(&settings.Engine{}, nil, err)
	}
	if n.ports, err = pipeline.Ports(c.Processor, n.file, n.file); err != nil {
		return settings.Named(&settings.Engine{}, nil, err)
	}
	n.ports.OnConfigError, n.ports.Log = n.fail, n.log
	n.inbox.Start(n.deliver)
	return nil
}

// start puts a pipeline on a clock in place of the one before, which is drained
// first: per user, events stay in order.
func (n *runtime) start(clock shard.Clock) error {
	n.exchange.Lock()
	defer n.exchange.Unlock()
	if err := n.drain(); err != nil {
		return err
	}
	windows := n.config.Shard
	windows.Clock = clock
	p, err := pipeline.New(windows, n.config.Processor, n.ports)
	if err != nil {
		return err
	}
	n.pipeline = p
	go func() {
		select {
		case <-p.Router.Failed():
			n.fail(p.Router.Err())
		case <-n.failed.Done(): // the runtime is closed, or has failed already
		}
	}()
	return nil
}

// deliver hands new, recovered and retried events to the pipeline. It may wait
// for room, and must not hold up a shutdown meanwhile: the lock is held for a
// look at the pipeline only. What no pipeline takes stays pending in the inbox.
func (n *runtime) deliver(ctx context.Context, deliveries []profile.Delivery) error {
	return pipeline.InChunks(ctx, deliveries, n.offer)
}

// offer hands a chunk to the pipeline, all or none. Where the pipeline was
// exchanged during the wait, its successor gets what the old one refused.
func (n *runtime) offer(ctx context.Context, part []profile.Delivery) error {
	for {
		p := n.current()
		if p == nil {
			return shard.ErrDraining
		}
		if err := p.Offer(ctx, part); !errors.Is(err, shard.ErrDraining) {
			return err
		}
	}
}

// current returns the pipeline, nil once there is none; it waits while one is
// exchanged for another.
func (n *runtime) current() *pipeline.Pipeline {
	n.exchange.RLock()
	defer n.exchange.RUnlock()
	return n.pipeline
}

// drain closes the windows and waits for their writes, no longer than a
// shutdown may take once the program was told to stop.
func (n *runtime) drain() error {
	if n.pipeline == nil {
		return nil
	}
	p := n.pipeline
	n.pipeline = nil
	n.done = append(n.done, p)
	// Without a signal it takes what it takes; with one, or after a fault, it
	// is bounded.
	ctx, cancel := context.WithCancel(n.failed)
	defer cancel()
	stop := context.AfterFunc(n.ctx, func() {
		bounded, release := context.WithTimeout(ctx, n.config.Timeout)
		defer release()
		<-bounded.Done()
		cancel()
	})
	defer stop()
	return p.Router.Drain(ctx)
}

// idle waits for what is in flight and for retries: they belong to the job. A
// signal ends the wait, and so does a fault, after which nothing is settled.
func (n *runtime) idle() error {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	defer context.AfterFunc(n.failed, cancel)()
	return n.inbox.Idle(ctx)
}

// quiesce stops in the order of the flow: nothing new, windows out, verdicts
// durable. The file can still be read.
func (n *runtime) quiesce() error {
	n.inbox.Stop()
	n.exchange.Lock()
	drained := n.drain()
	n.exchange.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), n.config.Timeout)
	defer cancel()
	return errors.Join(context.Cause(n.failed), drained, n.inbox.Close(ctx))
}

// stop quiesces after err. A fault that stopped all work is told once: that windows
// and verdicts were left behind is its consequence, and the next process recovers
// them.
func (n *runtime) stop(err error) error {
	quiet := n.quiesce()
	if cause := context.Cause(n.failed); cause != nil {
		return fmt.Errorf("%w (what was read is kept; run the same command again to go on)", cause)
	}
	return errors.Join(err, quiet)
}

// close quiesces and lets go of the folder.
func (n *runtime) close() error { return errors.Join(n.quiesce(), n.closeFile()) }

func (n *runtime) closeFile() (err error) {
	n.fail(nil)
	defer n.unlock()
	if n.intake != nil {
		err = n.intake.close()
	}
	if n.file != nil {
		err = errors.Join(err, n.file.Close())
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", n.data, err)
	}
	return nil
}

// writer joins the inbox to the file's one writer.
type writer struct{ file *sqlite.File }

func (w writer) Write(ctx context.Context, fn func(inbox.Tx) error) error {
	return w.file.Write(ctx, func(tx *sqlfile.Tx) error { return fn(tx) })
}

func (w writer) Enqueue(fn func(inbox.Tx) error, done func(error)) {
	w.file.Enqueue(func(tx *sqlfile.Tx) error { return fn(tx) }, done)
}
