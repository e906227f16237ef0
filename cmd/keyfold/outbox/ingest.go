package outbox

import (
	"context"
	"errors"

	"github.com/sourcegraph/conc"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/shutdown"
	"keyfold/internal/tracing"

	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/source/httpapi"
	"keyfold/source/ingest"
	"keyfold/source/outbox"
)

// IngestCmd takes events over HTTP and stores them.
type IngestCmd struct {
	API   app.APIFlags `embed:""`
	Relay bool         `help:"Also run the relay in this process."`
}

// Service marks a command that runs until it is told to stop.
func (c *IngestCmd) Service() {}

// Check judges the API's settings and the addresses of the servers.
func (c *IngestCmd) Check(a *app.App) error {
	faults := []error{a.CheckDatabase()}
	if c.Relay {
		faults = append(faults, a.CheckBroker())
	}
	return errors.Join(append(faults, c.API.Check())...)
}

// Run listens until it is told to stop, answers what is under way, and stores
// what was taken in before it ends.
func (c *IngestCmd) Run(a *app.App) error {
	a.LogStart("ingest")
	config, err := c.API.Config()
	if err != nil {
		return err
	}
	if err := a.AutoSetup(c.Relay); err != nil {
		return err
	}
	return a.WithServiceDatabase(func(db *outbox.Database) error {
		return a.WithTracing("keyfold-ingest", func(t *tracing.Tracing) error { return c.serve(a, config, db, t) })
	})
}

func (c *IngestCmd) serve(a *app.App, config httpapi.Config, db *outbox.Database, t *tracing.Tracing) (err error) {
	in := &ingesting{app: a, db: db, tracing: t, gauge: outbox.NewGauge(db)}
	storing := outbox.StoreConfig{}
	if c.Relay {
		in.relay = newRelaying(a, db, t)
		storing.Stored = in.relay.relay.Wake
	}
	in.store = outbox.NewStore(db, storing)
	defer func() { err = errors.Join(err, in.closeStore()) }()
	in.api = ingest.New(in, db.Check)
	in.handler = httpapi.NewHandler(in.api, a.Log.With("component", "ingest"))
	if in.server, err = httpapi.NewServer(config, in.handler); err != nil {
		return err
	}
	socket, err := a.Listen("ingest", in.server, "HTTP_ADDR", config.Addr, "/v1/events")
	if err != nil {
		return err
	}
	defer socket.Close()
	return a.WithAdmin(in, func() error {
		if in.relay == nil {
			ctx, cancel := context.WithCancel(a.Ctx)
			var gauge conc.WaitGroup
			gauge.Go(func() { in.gauge.Run(ctx) })
			defer gauge.Wait()
			defer cancel()
			return in.serve(socket)
		}
		in.relay.start()
		return errors.Join(in.serve(socket), in.relay.stop())
	})
}

// ingesting is a running API: its store, and what the admin endpoint
// asks.
type ingesting struct {
	app     *app.App
	db      *outbox.Database
	tracing *tracing.Tracing
	gauge   *outbox.Gauge
	store   *outbox.Store
	api     *ingest.API
	handler *httpapi.Handler
	server  *httpapi.Server
	relay   *relaying // nil: another process publishes
}

// Add stores what came in one request.
func (in *ingesting) Add(ctx context.Context, entries []profile.Entry) ([]bool, error) {
	ctx, stored := in.tracing.Stored(ctx, entries)
	fresh, err := in.store.Add(ctx, entries)
	stored(err)
	return fresh, err
}

func (in *ingesting) serve(socket *app.Socket) error {
	_ = in.Ready() // logs it where the database is away
	return socket.Serve()
}

func (in *ingesting) closeStore() error {
	ctx, cancel := in.app.Clock.Context(in.app.Ctx, shutdown.ConnCloseTimeout)
	defer cancel()
	return in.store.Close(ctx)
}

func (in *ingesting) Ready() error { return in.handler.Ready() }

// Notes: events are stored whether or not they can be published, and whatever
// is wrong with the tokens of some senders.
func (in *ingesting) Notes() (notes []string) {
	if err := in.server.TokenFault(); err != nil {
		notes = append(notes, "HTTP_TOKEN_FILE: "+err.Error())
	}
	if in.relay != nil {
		notes = append(notes, in.relay.Notes()...)
	}
	return notes
}

func (in *ingesting) Register(set *metric.Set) {
	in.server.Register(set)
	in.api.Stats().Register(set)
	in.store.Stats.Register(set)
	if in.relay != nil {
		in.relay.Register(set)
		return
	}
	in.gauge.Register(set)
}

func (in *ingesting) Figures() []app.Figure {
	events := in.api.Stats()
	figures := []app.Figure{
		{Name: "requests", Read: in.handler.Stats().Latency.Count},
		{Name: "accepted", Read: events.Accepted.Load},
		{Name: "duplicate", Read: events.Duplicate.Load},
		{Name: "refused", Read: events.Refused.Load},
	}
	if in.relay != nil {
		figures = append(figures, in.relay.Figures()...)
	}
	return figures
}
