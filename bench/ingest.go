package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/internal/report"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/sqltest"
	"keyfold/proof/stack"
	"keyfold/source/outbox"
	"keyfold/source/sample"
)

// ingestCmd posts one event a request at a rate to `ingest --relay`, with a
// worker behind it, and takes the broker away in the middle.
type ingestCmd struct {
	Rate     rate          `default:"500/s" help:"Requests per unit of time, one event each."`
	Before   time.Duration `default:"30s" help:"How long to post before the broker goes."`
	Away     time.Duration `default:"30s" help:"How long the broker is away."`
	After    time.Duration `default:"30s" help:"How long to post after its return."`
	Users    int           `default:"2000" help:"Users the events are spread over."`
	Database string        `default:"mariadb" enum:"mariadb,postgres,sqlite" help:"mariadb or postgres, a private server, or sqlite, a file."`
	Repeats  int           `default:"100" help:"One of so many events is posted twice; 0: none."`
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
	scenario
	*stack.Stack
	database string // DATABASE_URL
	db       *outbox.Database
	url      string // of the API
	client   *http.Client
	bodies   [][]byte

	requests sync.WaitGroup
	mu       sync.Mutex
	answers  [phases]map[string]int // by status, or "no answer"
	latency  [phases]report.Latencies
	taken    map[int]bool // bodies answered with 202

	oldest  time.Duration // the longest a row has waited
	back    time.Time     // when the broker was
	resumed time.Duration // from then until nothing waited
}

// Run starts what is needed, posts, waits until all is in profiles, and reports.
func (c *ingestCmd) Run(ctx context.Context, r *report.Report) error {
	return onStack(ctx, r, "", "", c.measure)
}

func (c *ingestCmd) measure(ctx context.Context, s *stack.Stack, to *report.Report) error {
	r := &ingestRun{Stack: s, taken: map[int]bool{}, client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512},
	}}
	for i := range phases {
		r.answers[i], r.latency[i] = map[string]int{}, report.NewLatencies()
	}
	r.rate, r.watch = c.Rate, r.watchBacklog
	r.send = func(_ context.Context, i int, due time.Time) error {
		r.requests.Go(func() { r.post(ctx, i, due) })
		return nil
	}
	r.phases = []phase{
		before: {"before", c.Before, nil},
		away:   {"away", c.Away, func() error { return r.takeBroker(c.Away) }},
		after:  {"after", c.After, func() error { return r.returnBroker(c.Away) }},
	}
	if err := r.prepare(ctx, c); err != nil {
		return err
	}
	work, err := s.Launch(c.Env, "work")
	if err != nil {
		return err
	}
	ingest, err := r.serve(ctx, c.Env)
	if err != nil {
		return err
	}
	err = r.run(ctx)
	r.requests.Wait()
	if err != nil {
		return err
	}
	result, err := r.settle(ctx)
	if err == nil {
		err = errors.Join(ingest(), work()) // their processor time is known then
	}
	if err != nil {
		return err
	}
	return r.report(to, result)
}

// prepare starts the database, sets everything up, and makes the events.
func (r *ingestRun) prepare(ctx context.Context, c *ingestCmd) error {
	switch c.Database {
	case outbox.SQLite:
		r.database = "sqlite://" + filepath.Join(r.Dir, "outbox.db")
	case outbox.PostgreSQL:
		server, err := pgtest.Launch(filepath.Join(r.Dir, "sql"), "fsync=on")
		if err != nil {
			return err
		}
		r.AtEnd(server.Stop)
		r.database = server.URL("postgres")
	default:
		server, err := sqltest.Launch(filepath.Join(r.Dir, "sql"))
		if err != nil {
			return err
		}
		r.AtEnd(server.Stop)
		if _, err := server.Admin().Exec("CREATE DATABASE bench CHARACTER SET utf8mb4"); err != nil {
			return err
		}
		r.database = server.URL("bench")
	}
	r.Env = append(r.Env, "DATABASE_URL="+r.database)
	if err := r.SetUp(ctx, sample.Products()); err != nil {
		return err
	}
	var err error
	if r.db, err = outbox.Open(r.database); err != nil {
		return err
	}
	r.AtEnd(func() { _ = r.db.Close() }) // everything was read
	event := sampleEvents(r.events()/6, c.Users, false)
	for i := range r.events() {
		body, _, err := event(i, fmt.Sprintf("bench-%d-%d", os.Getpid(), i))
		if err != nil {
			return err
		}
		if i > 0 && c.Repeats > 0 && i%c.Repeats == 0 {
			body = r.bodies[i-1]
		}
		r.bodies = append(r.bodies, body)
	}
	return nil
}

// serve runs `ingest --relay` and waits until it answers.
func (r *ingestRun) serve(ctx context.Context, env []string) (stop func() error, err error) {
	addr, err := r.Address()
	if err != nil {
		return nil, err
	}
	r.url = "http://" + addr
	if stop, err = r.Launch(env, "ingest", "--relay", "--http-addr", addr); err != nil {
		return nil, err
	}
	return stop, stack.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
		resp, err := r.client.Get(r.url + "/readyz")
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// post sends an event, whether or not those before were answered: a request's
// latency counts from when it was due.
func (r *ingestRun) post(ctx context.Context, i int, due time.Time) {
	phase := r.current.Load()
	answer := r.request(ctx, r.bodies[i])
	took := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[phase][answer]++
	r.taken[i] = answer == "202"
	r.latency[phase].Add(took)
}

// request returns the status of the answer.
func (r *ingestRun) request(ctx context.Context, body []byte) string {
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

func (r *ingestRun) takeBroker(span time.Duration) error {
	if span == 0 {
		return nil
	}
	err := r.Broker.Sync()
	if err == nil {
		r.Broker.Kill()
	}
	return err
}

func (r *ingestRun) returnBroker(span time.Duration) (err error) {
	if span > 0 {
		err = r.Broker.Boot()
	}
	r.back = time.Now()
	return err
}

// watchBacklog waits, once the broker is back, until no row waits for long.
func (r *ingestRun) watchBacklog(ctx context.Context) error {
	if r.current.Load() != after || r.resumed > 0 {
		return nil
	}
	return stack.Poll(ctx, 100*time.Millisecond, func() (bool, error) {
		backlog, err := r.db.Backlog(ctx, 0)
		age := backlog.Age(engine.Now())
		r.oldest, r.resumed = max(r.oldest, age), time.Since(r.back)
		return age < time.Second, err
	})
}
