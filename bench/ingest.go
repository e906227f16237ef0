package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	sqltest "keyfold/bench/testserver/mariadb"
	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
	"keyfold/source/outbox"
	"keyfold/source/sample"
)

// ingestCmd posts one event a request at a rate to `ingest --relay`, with a
// worker behind it, and takes the broker away in the middle.
type ingestCmd struct {
	Rate     string        `default:"500/s" help:"Requests per unit of time, one event each."`
	Before   time.Duration `default:"30s" help:"How long to post before the broker goes."`
	Away     time.Duration `default:"30s" help:"How long the broker is away."`
	After    time.Duration `default:"30s" help:"How long to post after its return."`
	Users    int           `default:"2000" help:"Users the events are spread over."`
	Database string        `default:"mariadb" enum:"mariadb,sqlite" help:"mariadb, a private server, or sqlite, a file."`
	Env      []string      `help:"Settings of the processes, NAME=value."`
}

// Phases of a run.
const (
	before = iota
	away
	after
	phases
)

// ingestRun is one run.
type ingestRun struct {
	*servers
	broker   *rabbittest.Broker
	database string // DATABASE_URL
	url      string // of the API
	client   *http.Client

	mu      sync.Mutex
	answers [phases]map[string]int          // by status, or "no answer"
	latency [phases]*hdrhistogram.Histogram // microseconds
	taken   map[int]bool                    // bodies answered with 202
	phase   int
	late    time.Duration // of the load generator at most

	bodies [][]byte
	// processor is what work and ingest have used, in this order.
	processor []time.Duration
	oldest    time.Duration // the longest a row has waited
	resumed   time.Duration // from the broker's return until nothing waited
}

// Run starts what is needed, posts, waits until all is in profiles, and reports.
func (c *ingestCmd) Run(ctx context.Context) (err error) {
	pause, err := pauseOf(c.Rate)
	if err != nil {
		return err
	}
	r, program, err := c.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	stop, err := r.startPrograms(ctx, program, c.Env)
	if err != nil {
		return err
	}
	stop = sync.OnceValue(stop)
	defer func() { err = errors.Join(err, stop()) }()
	total := c.Before + c.Away + c.After
	if err := r.prepareBodies(int(total/pause), c.Users); err != nil {
		return err
	}
	posted := make(chan error, 1)
	go func() { posted <- r.post(ctx, pause) }()
	if err := r.interrupt(ctx, c); err != nil {
		return err
	}
	if err := <-posted; err != nil {
		return err
	}
	result, err := r.settle(ctx)
	if err == nil {
		err = stop() // their processor time is known then
	}
	if err != nil {
		return err
	}
	return r.report(os.Stdout, c, result)
}

// start starts broker, store and database, and sets them up.
func (c *ingestCmd) start(ctx context.Context) (r *ingestRun, program string, err error) {
	// The broker is this command's own: it is to be killed.
	s, err := serverFlags{RabbitMQ: "started below"}.start(ctx)
	if err != nil {
		return nil, "", err
	}
	r = &ingestRun{servers: s, taken: map[int]bool{}, client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512},
	}}
	for i := range phases {
		r.answers[i], r.latency[i] = map[string]int{}, hdrhistogram.New(1, 60_000_000, 3)
	}
	if r.broker, err = rabbittest.Launch(s.dir); err == nil {
		s.closers = append(s.closers, func() error { r.broker.Stop(); return nil })
		s.dsn = r.broker.DSN("/")
		err = r.startDatabase(c.Database)
	}
	if err == nil {
		program, err = s.build(ctx, "keyfold/cmd/keyfold")
	}
	if err == nil {
		err = os.Setenv("DATABASE_URL", r.database) // of every program started below
	}
	if err == nil {
		err = prepare(ctx, s, program)
	}
	if err != nil {
		return nil, "", errors.Join(err, s.close())
	}
	return r, program, nil
}

func (r *ingestRun) startDatabase(kind string) error {
	if kind == outbox.SQLite {
		r.database = "sqlite://" + filepath.Join(r.dir, "outbox.db")
		return nil
	}
	server, err := sqltest.Launch(filepath.Join(r.dir, "sql"))
	if err != nil {
		return err
	}
	r.closers = append(r.closers, func() error { server.Stop(); return nil })
	if _, err := server.Admin().Exec("CREATE DATABASE bench CHARACTER SET utf8mb4"); err != nil {
		return err
	}
	r.database = server.URL("bench")
	return nil
}

// startPrograms runs `ingest --relay` and `work`, and waits until the API
// answers.
func (r *ingestRun) startPrograms(ctx context.Context, program string, env []string) (stop func() error, err error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	r.url = "http://" + addr
	var running []*exec.Cmd
	stop = func() error {
		var errs []error
		for _, p := range running {
			errs = append(errs, p.Process.Signal(syscall.SIGTERM))
		}
		for _, p := range running {
			errs = append(errs, p.Wait())
			r.processor = append(r.processor, p.ProcessState.UserTime()+p.ProcessState.SystemTime())
		}
		return errors.Join(errs...)
	}
	for _, args := range [][]string{{"work"}, {"ingest", "--relay", "--http-addr", addr}} {
		p := exec.Command(program, args...)
		p.Env, p.Stderr = r.environment(env...), os.Stderr
		if err := p.Start(); err != nil {
			return nil, errors.Join(err, stop())
		}
		running = append(running, p)
	}
	for ctx.Err() == nil {
		if resp, err := r.client.Get(r.url + "/readyz"); err == nil {
			if err := resp.Body.Close(); err == nil && resp.StatusCode == http.StatusOK {
				return stop, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.Join(ctx.Err(), stop())
}

func (r *ingestRun) prepareBodies(n, users int) error {
	g := sample.DefaultConfig(max(1, n/6))
	g.Users, g.Repeats = users, 0
	events := sample.Events(g)
	for i := range n {
		body, _, err := relabel(events[i%len(events)], fmt.Sprintf("bench-%d-%d", os.Getpid(), i), "")
		if err != nil {
			return err
		}
		r.bodies = append(r.bodies, body)
	}
	return nil
}

// post sends each event at its time, whether or not those before were answered:
// a request's latency counts from when it was due.
func (r *ingestRun) post(ctx context.Context, pause time.Duration) error {
	var requests sync.WaitGroup
	defer requests.Wait()
	began := time.Now()
	for i := range r.bodies {
		due := began.Add(time.Duration(i) * pause)
		time.Sleep(time.Until(due))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.late = max(r.late, time.Since(due))
		requests.Go(func() { r.postOne(ctx, i, due) })
	}
	return nil
}

func (r *ingestRun) postOne(ctx context.Context, i int, due time.Time) {
	r.mu.Lock()
	phase := r.phase
	r.mu.Unlock()
	answer := r.send(ctx, r.bodies[i])
	took := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[phase][answer]++
	r.taken[i] = answer == "202"
	_ = r.latency[phase].RecordValue(max(1, min(took.Microseconds(), 60_000_000)))
}

// send returns the status of the answer.
func (r *ingestRun) send(ctx context.Context, body []byte) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/events", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "no answer"
	}
	return fmt.Sprint(resp.StatusCode)
}

// interrupt takes the broker away and gives it back, while events are posted.
func (r *ingestRun) interrupt(ctx context.Context, c *ingestCmd) error {
	db, err := outbox.Open(r.database)
	if err != nil {
		return err
	}
	defer db.Close()
	enter := func(phase int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.phase = phase
	}
	rest(ctx, c.Before)
	if c.Away > 0 {
		if _, err := r.broker.Tell("eval", "mnesia:sync_log()."); err != nil {
			return err
		}
		enter(away)
		r.broker.Kill()
		rest(ctx, c.Away)
		if err := r.broker.Boot(); err != nil {
			return err
		}
	}
	enter(after)
	back := time.Now()
	for ctx.Err() == nil {
		backlog, err := db.Backlog(ctx)
		if err != nil {
			return err
		}
		age := backlog.Age(engine.Now())
		r.oldest = max(r.oldest, age)
		if age < time.Second {
			r.resumed = time.Since(back)
			break
		}
		rest(ctx, 100*time.Millisecond)
	}
	return ctx.Err()
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
