package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	mongotest "keyfold/bench/testserver/mongodb"
	"keyfold/engine"
	"keyfold/source/rabbit"
)

// outageCmd takes the store away from a worker under load and gives it back.
type outageCmd struct {
	Rate   string        `default:"200/s" help:"Events per unit of time, all the while."`
	Before time.Duration `default:"60s" help:"How long to publish before the store goes."`
	Away   time.Duration `default:"10m" help:"How long the store is away."`
	After  time.Duration `default:"60s" help:"How long to publish after its return."`
	Users  int           `default:"2000" help:"Users the events are spread over."`
	Env    []string      `help:"Settings of the worker, NAME=value."`

	RabbitMQ string `name:"rabbitmq-dsn" env:"BENCH_RABBITMQ_DSN" placeholder:"DSN" help:"Broker to use; default: a private one."`
}

// outage is one run.
type outage struct {
	*servers
	store   *mongotest.Process
	admin   string // of the worker
	samples []outageSample
}

// outageSample is a second of it.
type outageSample struct {
	at             time.Time
	resident, heap float64 // bytes
	folded         float64
	held, queue    int
}

// Run starts broker, store and worker, publishes throughout, and reports.
func (c *outageCmd) Run(ctx context.Context) (err error) {
	pause, err := pauseOf(c.Rate)
	if err != nil {
		return err
	}
	o, program, err := c.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	stop, err := startWorkers(o.servers, program, 1, append(c.Env, "ADMIN_ADDR="+o.admin))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	load := &loadRun{servers: o.servers, sent: map[engine.AppliedID]time.Time{}}
	published := make(chan error, 1)
	go func() { published <- load.publish(ctx, pause, c.Before+c.Away+c.After, c.Users) }()
	if err := o.watch(ctx, c.Before); err != nil {
		return err
	}
	gone, first := time.Now(), len(o.samples)
	o.store.Kill()
	if err := o.watch(ctx, c.Away); err != nil {
		return err
	}
	dead, err := rabbit.Depth(ctx, o.dsn, rabbit.DefaultNames().DeadLetters)
	if err != nil {
		return err
	}
	last := len(o.samples)
	if err := o.store.Boot(); err != nil {
		return err
	}
	back := time.Now()
	drained, err := o.drain(ctx, published)
	if err != nil {
		return err
	}
	if err := load.await(ctx); err != nil {
		return err
	}
	r := outageReport{
		away: back.Sub(gone), rate: 1 / pause.Seconds(), dead: dead, missing: load.missing, sent: len(load.sent),
		before: o.samples[:first], during: o.samples[first:last], after: o.samples[last:], back: back, drained: drained,
	}
	return r.print(os.Stdout)
}

func (c *outageCmd) start(ctx context.Context) (o *outage, program string, err error) {
	// The store is this command's own: it is to be killed.
	s, err := serverFlags{RabbitMQ: c.RabbitMQ, MongoDB: "started below"}.start(ctx)
	if err != nil {
		return nil, "", err
	}
	o = &outage{servers: s}
	o.store, err = s.startStore(ctx, "--data", filepath.Join(s.dir, "journal"))
	if err == nil {
		program, err = s.build(ctx, "keyfold/cmd/keyfold")
	}
	if err == nil {
		err = prepare(ctx, s, program)
	}
	if err == nil {
		o.admin, err = freeAddress()
	}
	if err != nil {
		return nil, "", errors.Join(err, s.close())
	}
	return o, program, nil
}

// freeAddress returns a port nobody listens on at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// watch takes a sample a second for as long as d.
func (o *outage) watch(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Second) {
		if err := o.sample(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// drain watches until all is published and the queue is empty, or for half an
// hour, and returns when that was.
func (o *outage) drain(ctx context.Context, published <-chan error) (time.Time, error) {
	over := false
	for end := time.Now().Add(30 * time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Second) {
		select {
		case err := <-published:
			if over = true; err != nil {
				return time.Time{}, err
			}
		default:
		}
		if err := o.sample(ctx); err != nil {
			return time.Time{}, err
		}
		if last := o.samples[len(o.samples)-1]; over && last.queue == 0 && last.held == 0 {
			return last.at, nil
		}
	}
	return time.Time{}, errors.Join(ctx.Err(), errors.New("the queue is not empty after half an hour"))
}

func (o *outage) sample(ctx context.Context) error {
	figures, err := o.metrics(ctx)
	if err != nil {
		return err
	}
	queue, err := rabbit.Depth(ctx, o.dsn, rabbit.DefaultNames().Queue)
	o.samples = append(o.samples, outageSample{
		at: time.Now(), resident: figures["process_resident_memory_bytes"], heap: figures["go_memstats_heap_inuse_bytes"],
		folded: figures[`keyfold_events_total{outcome="folded"}`], held: int(figures["keyfold_held_events"]), queue: queue,
	})
	return err
}

// metrics reads the worker's figures; none while it is starting.
func (o *outage) metrics(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return figures, ctx.Err()
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			figures[name], _ = strconv.ParseFloat(value, 64) // comments are none
		}
	}
	return figures, lines.Err()
}
