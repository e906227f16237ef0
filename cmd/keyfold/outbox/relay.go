package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/sourcegraph/conc"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/metric"
	"keyfold/internal/tracing"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// RelayCmd publishes what is stored.
type RelayCmd struct{}

// Service marks a command that runs until it is told to stop.
func (c *RelayCmd) Service() {}

// Check judges the addresses of the servers.
func (c *RelayCmd) Check(a *app.App) error {
	return errors.Join(a.CheckDatabase(), a.CheckBroker())
}

// Run publishes until it is told to stop; what is under way is confirmed and
// marked before it ends.
func (c *RelayCmd) Run(a *app.App) error {
	a.LogStart("relay")
	if err := a.AutoSetup(true); err != nil {
		return err
	}
	return a.WithServiceDatabase(func(db *outbox.Database) error {
		return a.WithTracing("keyfold-relay", func(t *tracing.Tracing) error {
			r := newRelaying(a, db, t)
			return a.WithAdmin(r, func() error {
				r.start()
				<-a.Ctx.Done()
				return r.stop()
			})
		})
	})
}

// relaying is a running relay.
type relaying struct {
	publishing
	app     *app.App
	gauge   *outbox.Gauge
	cleaner *outbox.Cleaner
	cancel  context.CancelFunc
	ended   chan struct{}
}

func newRelaying(a *app.App, db *outbox.Database, t *tracing.Tracing) *relaying {
	return &relaying{
		publishing: publishingOf(a, db, a.Identity("relay"), "publisher", toBroker{tracing: t}, outbox.RelayConfig{}),
		app:        a, gauge: outbox.NewGauge(db), ended: make(chan struct{}),
		cleaner: outbox.NewCleaner(db, a.Outbox.Cleaner(), a.Log),
	}
}

func (r *relaying) start() {
	var ctx context.Context
	// The relay goes on when the program is told to stop: the API stops first, and
	// its last rows are published too.
	r.app.Log.Info("relaying", slog.String("broker", rabbit.Redact(r.app.Servers.RabbitMQ)))
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(r.app.Ctx))
	go func() {
		defer close(r.ended)
		var all conc.WaitGroup
		all.Go(func() { r.relay.Run(ctx) })
		all.Go(func() { r.cleaner.Run(ctx) })
		all.Go(func() { r.gauge.Run(ctx) })
		all.Wait()
	}()
}

func (r *relaying) stop() error {
	r.cancel()
	<-r.ended
	r.app.Log.Info("relay stopped")
	return r.app.ClosePublisher(r.close)
}

// Ready tells of an alarm before the relay has waited for a confirm in vain.
func (r *relaying) Ready() error { return cmp.Or(r.ready(), r.relay.Fault()) }

func (r *relaying) Notes() []string {
	if err := r.Ready(); err != nil {
		return []string{"relay: " + err.Error()}
	}
	return nil
}

func (r *relaying) Register(set *metric.Set) {
	r.relay.Stats.Register(set)
	set.Gauge("keyfold_relay_fault", "1 while the relay publishes nothing, or nothing of some users; its log and /readyz say why.", func() float64 {
		if r.relay.Fault() != nil {
			return 1
		}
		return 0
	})
	r.register(set)
	r.cleaner.Register(set)
	r.gauge.Register(set)
}

func (r *relaying) Figures() []app.Figure {
	s := &r.relay.Stats
	return []app.Figure{
		{Name: "published", Read: s.Sent.Load},
		{Name: "unpublished", Read: func() int64 {
			return s.Unroutable.Load() + s.Refused.Load() + s.Unknown.Load() + s.Away.Load()
		}},
		{Name: "set_aside", Read: s.SetAside.Load},
		{Name: "waiting", Gauge: true, Read: r.gauge.Unsent},
	}
}
