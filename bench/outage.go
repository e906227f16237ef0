package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"keyfold/engine/metric"
	"keyfold/internal/report"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// outageCmd takes the store away from a worker under load and gives it back.
type outageCmd struct {
	Rate   rate          `default:"200/s" help:"Events per unit of time, all the while."`
	Before time.Duration `default:"60s" help:"How long to publish before the store goes."`
	Away   time.Duration `default:"10m" help:"How long the store is away."`
	After  time.Duration `default:"60s" help:"How long to publish after its return."`
	Users  int           `default:"2000" help:"Users the events are spread over."`
	Env    []string      `help:"Settings of the worker, NAME=value."`

	Broker brokerFlag `embed:""`
}

// outage is one run.
type outage struct {
	metrics func(context.Context) (map[string]float64, error) // of the worker; none while it is starting
	ready   func(context.Context) (int, error)                // messages that wait at the broker
	done    string                                            // the metric of finished events
	samples []outageSample
	report  *report.Report
}

// outageSample is a second of it.
type outageSample struct {
	at             time.Time
	resident, heap float64 // bytes
	done           float64
	held, queue    int
}

// Run starts broker, store and worker, publishes throughout, and reports.
func (c *outageCmd) Run(ctx context.Context, r *report.Report) error {
	// The store is this command's own: it is to be killed.
	return onStack(ctx, r, c.Broker.RabbitMQ, "", c.measure, "--data", "journal")
}

func (c *outageCmd) measure(ctx context.Context, s *stack.Stack, to *report.Report) (err error) {
	admin, err := s.Address()
	if err != nil {
		return err
	}
	o := &outage{
		report:  to,
		metrics: func(ctx context.Context) (map[string]float64, error) { return readMetrics(ctx, admin) },
		ready:   func(ctx context.Context) (int, error) { return rabbit.Waiting(ctx, s.DSN, 0) },
		done:    `keyfold_events_total{outcome="folded"}`,
	}
	if err := startWorkers(ctx, s, sample.Products(), 1, append(c.Env, "ADMIN_ADDR="+admin)); err != nil {
		return err
	}
	var gone time.Time
	var first, last int // of the samples without a store, and behind them
	r := outageReport{rate: 1 / c.Rate.pause.Seconds(), recovery: recovery}
	l := newLoad(s, c.Rate, "", phase{span: c.Before}, phase{span: c.Away, begin: func() error {
		gone, first = time.Now(), len(o.samples)
		s.Store.Kill()
		return nil
	}}, phase{span: c.After, begin: func() (err error) {
		if r.dead, err = deadLetters(ctx, s); err != nil {
			return err
		}
		last = len(o.samples)
		err = s.Store.Boot()
		r.back = time.Now()
		return err
	}})
	l.event, l.watch = sampleEvents(l.events()/8, c.Users, true), o.sample
	if err := l.run(ctx); err != nil {
		return err
	}
	if r.drained, err = o.drain(ctx); err != nil {
		return err
	}
	if err := l.await(ctx, awaitLimit, noDeadLetters); err != nil {
		return err
	}
	r.away, r.missing, r.sent = r.back.Sub(gone), l.missing, len(l.sent)
	r.before, r.during, r.after = o.samples[:first], o.samples[first:last], o.samples[last:]
	r.add(to)
	to.Judge(report.SC005, r.dead == 0 && r.missing == 0, "%d of %d events missing, %d dead letters; the store was killed and away for %v", r.missing, r.sent, r.dead, r.away.Round(time.Second))
	return r.lost()
}

// drain watches until the queue is empty, or for half an hour, and returns when that
// was.
func (o *outage) drain(ctx context.Context) (drained time.Time, err error) {
	end := time.Now().Add(30 * time.Minute)
	err = stack.Poll(ctx, time.Second, func() (bool, error) {
		err := o.sample(ctx)
		last := o.samples[len(o.samples)-1]
		if drained = last.at; err == nil && drained.After(end) {
			err = errors.New("the queue is not empty after half an hour")
		}
		return last.queue == 0 && last.held == 0, err
	})
	return drained, err
}

func (o *outage) sample(ctx context.Context) error {
	figures, err := o.metrics(ctx)
	if err != nil {
		return err
	}
	queue, err := o.ready(ctx)
	o.report.Point("queue", "ready", "events", float64(queue))
	o.report.Point("queue", "held", "events", figures["keyfold_held_events"])
	o.samples = append(o.samples, outageSample{
		at: time.Now(), resident: figures["process_resident_memory_bytes"], heap: figures["go_memstats_heap_inuse_bytes"],
		done: figures[o.done], held: int(figures["keyfold_held_events"]), queue: queue,
	})
	return err
}

// readMetrics reads a worker's figures; none while it is starting.
func readMetrics(ctx context.Context, admin string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, ctx.Err()
	}
	defer response.Body.Close()
	return metric.Parse(response.Body)
}
