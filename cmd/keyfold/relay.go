package main

import (
	"context"
	"errors"
	"log/slog"

	"keyfold/engine/metric"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// relayCmd publishes what is stored.
type relayCmd struct{}

func (c *relayCmd) check(a *app) error {
	return errors.Join(a.checkDatabase(), a.checkBroker())
}

// Run publishes until it is told to stop; what is under way is confirmed and
// marked before it ends.
func (c *relayCmd) Run(a *app) (err error) {
	db, err := startedDatabase(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r := newRelaying(a, db)
	admin, err := startAdmin(a.servers.Admin, r, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.close()) }()
	a.log.Info("relaying", slog.String("broker", rabbit.Redact(a.servers.RabbitMQ)))
	r.start()
	<-a.ctx.Done()
	return r.stop()
}

// relaying is a running relay.
type relaying struct {
	*app
	gauge     *outbox.Gauge
	publisher *rabbit.Publisher
	relay     *outbox.Relay
	cancel    context.CancelFunc
	ended     chan struct{}
}

func newRelaying(a *app, db *outbox.Database) *relaying {
	p := rabbit.NewPublisher(a.servers.RabbitMQ, rabbit.ThisProcess("relay"), "publisher", rabbit.Timing{}, a.log)
	to := toBroker{publisher: p, names: rabbit.DefaultNames()}
	return &relaying{app: a, gauge: outbox.NewGauge(db), publisher: p, relay: outbox.NewRelay(db, to, outbox.RelayConfig{}, a.log), ended: make(chan struct{})}
}

func (r *relaying) start() {
	var ctx context.Context
	// Whoever stores stops first: what is stored last is published too.
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(r.ctx))
	go func() {
		defer close(r.ended)
		r.relay.Run(ctx)
	}()
}

func (r *relaying) stop() error {
	r.cancel()
	<-r.ended
	return closePublisher(r.ctx, r.publisher)
}

func (r *relaying) ready(context.Context) error { return r.relay.Fault() }

func (r *relaying) notes() []string {
	if err := r.relay.Fault(); err != nil {
		return []string{"relay: " + err.Error()}
	}
	return nil
}

func (r *relaying) register(set *metric.Set) {
	r.relay.Stats.Register(set)
	r.gauge.Register(r.ctx, set)
}
