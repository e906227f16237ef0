// Package status has the command that shows on one screen how all parts of an
// installation stand, and whether anything needs a person.
package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/reach"
	"keyfold/cmd/keyfold/streams"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/service/status"
	"keyfold/source/outbox"
)

// patience is how long a process, or RabbitMQ's management, may take to answer.
const patience = 5 * time.Second

// Cmd shows the status.
type Cmd struct {
	reach.StatusFlags `embed:""`
	Watch             bool     `help:"Look again and again, until Ctrl-C."`
	Every             cli.Span `default:"5s" help:"From one look to the next, with --watch."`
}

// Help is the long text.
func (c *Cmd) Help() string {
	return `The exit code is 0 where nothing needs a person, and otherwise 1. It is a look: no message is taken,
nothing is written, and the embedding API is not asked; workers say whether it answers them. Redis is asked
where REDIS_URL is set.

Examples:
  keyfold status --processes worker-1:9090,worker-2:9090,relay:9090
  keyfold status --processes keyfold-worker.shop.svc:9090 --watch
  keyfold status -o json | jq .problems`
}

// Check judges the settings.
func (c *Cmd) Check(a *app.App) error {
	faults := []error{CheckServers(a), c.StatusFlags.Check()}
	if c.Every <= 0 {
		faults = append(faults, errors.New("--every must be above 0s, such as 5s"))
	}
	return errors.Join(faults...)
}

// Run looks once, or until it is told to stop.
func (c *Cmd) Run(a *app.App) error {
	if !c.Watch {
		r, err := Look(a, c.StatusFlags, nil)
		if err == nil {
			err = a.Emit(r, r.Print)
		}
		if err == nil && len(r.Problems) > 0 {
			err = errors.New(cli.Count(int64(len(r.Problems)), "problem") + " found")
		}
		return err
	}
	ticker := time.NewTicker(time.Duration(c.Every))
	defer ticker.Stop()
	for before := map[string]map[string]float64(nil); ; {
		r, err := Look(a, c.StatusFlags, before)
		if err != nil || a.Ctx.Err() != nil {
			return err
		}
		if err := show(a, r); err != nil {
			return err
		}
		before = map[string]map[string]float64{}
		for _, p := range r.Processes {
			before[p.Address] = p.Figures
		}
		select {
		case <-a.Ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// CheckServers judges the addresses of the servers that a look asks.
func CheckServers(a *app.App) error {
	faults := []error{a.CheckBroker(), a.CheckStore()}
	if a.Servers.SQL != "" {
		faults = append(faults, a.CheckDatabase())
	}
	if a.Notify.Ledger != "" {
		faults = append(faults, a.CheckLedger())
	}
	return errors.Join(faults...)
}

// Look asks servers and processes, all at once. before has the figures of an earlier look by
// the processes' addresses, for what came since then.
func Look(a *app.App, flags reach.StatusFlags, before map[string]map[string]float64) (*status.Report, error) {
	r := &status.Report{At: time.Now(), Queues: []status.Queue{}, Problems: []status.Problem{}, Notes: []string{}, Processes: []status.Process{}}
	bounded := *a
	ctx, cancel := context.WithTimeout(a.Ctx, reach.Patience)
	defer cancel()
	bounded.Ctx = ctx
	base, err := flags.ManagementURL()
	if err != nil {
		return nil, err
	}
	m, err := newManagement(base, a.Servers.RabbitMQ)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	var brokerErr, outboxErr, streamsErr error
	all.Go(func() { r.Servers = reach.AskOwn(&bounded) })
	all.Go(func() { brokerErr = lookAtBroker(r, &bounded, m) })
	all.Go(func() { r.Streams, streamsErr = lookAtStreams(&bounded) })
	all.Go(func() { r.Outbox, outboxErr = lookAtOutbox(&bounded) })
	asked, unnamed, missing := addresses(ctx, flags.Processes)
	r.Processes = lookAtProcesses(ctx, asked, before)
	all.Wait()
	r.Problems, r.Notes = append(r.Problems, unnamed...), append(r.Notes, missing...)
	if len(flags.Processes) == 0 {
		r.Notes = append(r.Notes, "STATUS_PROCESSES is not set: no process is asked")
	}
	failed(r, status.RabbitMQ, brokerErr)
	failed(r, status.SQL, outboxErr)
	if streamsErr != nil && !r.Away(status.RabbitMQ) && !r.Away(status.MongoDB) {
		r.Add("streams", streamsErr.Error(), "keyfoldstreamunread")
	}
	judge(r)
	return r, nil
}

// failed notes that a server could be used, and could not be looked at.
func failed(r *status.Report, server string, err error) {
	if err != nil && !r.Away(server) {
		r.Add(server, err.Error(), "")
	}
}

// lookAtOutbox counts what waits there; nil without DATABASE_URL.
func lookAtOutbox(a *app.App) (o *status.Outbox, err error) {
	if a.Servers.SQL == "" {
		return nil, nil //nolint:nilnil // documented
	}
	const most = 1_000_000 // rows: as many as the relay's metrics count
	err = a.WithDatabase(func(db *outbox.Database) error {
		b, err := db.Backlog(a.Ctx, most)
		if err == nil {
			o = &status.Outbox{Unsent: b.Unsent, OldestSeconds: b.Age(engine.Now()).Seconds(), SetAside: b.Failed, Backfill: b.Backfill}
		}
		return err
	})
	return o, err
}

// lookAtStreams says how far the streams are read; nil without RABBITMQ_STREAMS.
func lookAtStreams(a *app.App) ([]status.Stream, error) {
	if a.Queues.Streams == 0 {
		return nil, nil
	}
	return streams.Look(a)
}

// show prints a look: on a terminal in the place of the one before.
func show(a *app.App, r *status.Report) error {
	f, ok := a.Stdout.(*os.File)
	if a.JSON || !ok || !term.IsTerminal(int(f.Fd())) {
		return a.Emit(r, r.Print)
	}
	return repaint(f, r)
}

// repaint writes a screen line by line over the one before, and erases what is left of that: a
// screen that is erased first flickers.
func repaint(to io.Writer, r *status.Report) error {
	var screen bytes.Buffer
	r.Print(&cli.Text{W: &screen})
	_, err := fmt.Fprintf(to, "\x1b[H%s\x1b[J", bytes.ReplaceAll(screen.Bytes(), []byte("\n"), []byte("\x1b[K\n")))
	return err
}
