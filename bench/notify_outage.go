package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"keyfold/bench/workload"
	"keyfold/engine/notify"
	"keyfold/internal/report"
	"keyfold/service/notify/broker"
	"keyfold/sink/ledger/postgres"
	"keyfold/source/rabbit"
)

// ledgerOutageCmd takes PostgreSQL away from a worker under load and gives it back.
type ledgerOutageCmd struct {
	notifyFlags `embed:"" set:"users=20000"`

	Rate     rate          `default:"200/s" help:"Events per unit of time, all the while."`
	Before   time.Duration `default:"60s" help:"How long to publish before PostgreSQL goes."`
	Away     time.Duration `default:"10m" help:"How long it is away."`
	After    time.Duration `default:"60s" help:"How long to publish after its return."`
	Expiring float64       `default:"0.1" help:"Share of the events that expire after 30 s."`
}

// expiry is after what time those events expire.
const expiry = 30 * time.Second

// recoveryOfNotify bounds a failure: no time is promised.
const recoveryOfNotify = 5 * time.Minute

// Run publishes throughout.
func (c *ledgerOutageCmd) Run(ctx context.Context, to *report.Report) error {
	return c.run(ctx, to, func(ctx context.Context, b *notifyBench) error {
		t, err := workload.New(workload.Config{Seed: c.Seed, Users: c.Users, Skew: zipf, Expires: c.expires})
		if err != nil {
			return err
		}
		laws, err := workload.ShippedLaws()
		if err != nil {
			return err
		}
		if err := b.start(ctx, 1); err != nil {
			return err
		}
		senders := workload.Receive(b.DSN, nil)
		b.AtEnd(senders.Close)
		o := &outage{
			report:  to,
			metrics: func(ctx context.Context) (map[string]float64, error) { return b.metrics(ctx), nil },
			ready:   b.readyEvents,
			done:    `keyfold_notify_handled_total{outcome="decided"}`,
		}
		r := outageReport{rate: 1 / c.Rate.pause.Seconds(), recovery: recoveryOfNotify}
		if err := c.play(ctx, b, t, laws, o, &r); err != nil {
			return err
		}
		f, err := b.judge(ctx, laws, senders)
		if err != nil {
			return err
		}
		r.missing, r.sent = f.Undecided, f.Events
		r.add(to)
		return errors.Join(r.lost(), c.tell(to, f))
	})
}

func (c *ledgerOutageCmd) expires(r *rand.Rand, _ notify.EventType) time.Duration {
	if r.Float64() < c.Expiring {
		return expiry
	}
	return 0
}

// play publishes while PostgreSQL goes and comes back, and waits until nothing is left
// to decide.
func (c *ledgerOutageCmd) play(ctx context.Context, b *notifyBench, t *workload.Traffic, laws *workload.Laws, o *outage, r *outageReport) (err error) {
	var gone time.Time
	var first, last int // of the samples without PostgreSQL, and behind them
	p := b.newPaced(t, c.Rate, phase{span: c.Before}, phase{span: c.Away, begin: func() error {
		gone, first = time.Now(), len(o.samples)
		b.SQL.Kill()
		return nil
	}}, phase{span: c.After, begin: func() (err error) {
		if r.dead, err = rabbit.Depth(ctx, b.DSN, broker.Bulk().DeadLetters); err != nil {
			return err
		}
		last = len(o.samples)
		err = b.SQL.Boot()
		r.back = time.Now()
		return err
	}})
	p.watch, p.accept = o.sample, laws.Accepted
	if err := p.run(ctx); err != nil {
		return err
	}
	if r.drained, err = o.drain(ctx); err != nil {
		return err
	}
	if _, err := b.await(ctx, laws.Count(), 2*time.Minute); err != nil {
		return err
	}
	r.away = r.back.Sub(gone)
	r.before, r.during, r.after = o.samples[:first], o.samples[first:last], o.samples[last:]
	return nil
}

// tell reports what became of the events that have expired.
func (c *ledgerOutageCmd) tell(to *report.Report, f *workload.Findings) error {
	to.Add("expired while PostgreSQL was away: NEVER with EXPIRED", "events", float64(f.Expired))
	to.Note("%s", f)
	if f.Expired == 0 && c.Expiring > 0 && c.Away > 2*expiry {
		return errors.New("no event is NEVER with EXPIRED: the run proves nothing of them")
	}
	return f.Err()
}

// readyEvents returns how many events are ready in the workers' queues.
func (b *notifyBench) readyEvents(ctx context.Context) (n int, err error) {
	for _, queue := range workload.Queues() {
		ready, err := rabbit.Depth(ctx, b.DSN, queue)
		if err != nil {
			return 0, err
		}
		n += ready
	}
	return n, nil
}

// judge compares the ledger with what was accepted and sent. Deferrals may wait.
func (b *notifyBench) judge(ctx context.Context, laws *workload.Laws, senders *workload.Senders) (f *workload.Findings, err error) {
	sent, err := senders.Sent()
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(b.Ledger, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return laws.Judge(ctx, store, sent, false)
}
