package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/settings"
	"keyfold/cmd/shutdown"
	"keyfold/engine"
	"keyfold/source/ingest"
	"keyfold/source/outbox"
)

// IngestCmd takes events over HTTP and stores them.
type IngestCmd struct {
	API   apiFlags `embed:""`
	Relay bool     `help:"Also run the relay in this process."`
}

// apiFlags say where the API listens and whom it lets in.
type apiFlags struct {
	Addr       string          `name:"http-addr" env:"HTTP_ADDR" default:"127.0.0.1:7080" help:"Listen address of POST /v1/events."`
	Tokens     []string        `name:"http-tokens" env:"HTTP_TOKENS" help:"Bearer tokens, comma-separated; better in the environment or a file."`
	TokenFile  string          `name:"http-token-file" env:"HTTP_TOKEN_FILE" help:"File of bearer tokens, one per line; read again when it changes."`
	Insecure   settings.Switch `name:"insecure" env:"HTTP_INSECURE" help:"Explicitly allow listening beyond loopback without tokens."`
	TLSCert    string          `name:"http-tls-cert" env:"HTTP_TLS_CERT" help:"PEM certificate; read again when it changes."`
	TLSKey     string          `name:"http-tls-key" env:"HTTP_TLS_KEY" help:"PEM key."`
	Rate       string          `name:"http-rate" env:"HTTP_RATE" placeholder:"N/s" help:"Requests a second at most, all senders together; default 5000/s."`
	SenderRate string          `name:"http-sender-rate" env:"HTTP_SENDER_RATE" placeholder:"N/s" help:"Requests a second at most of one token or address; default 2000/s."`
	Concurrent string          `name:"http-max-concurrent" env:"HTTP_MAX_CONCURRENT" default:"1024" help:"Requests at once, at most a half of them from one sender."`
}

// config returns the API's settings; the error names every fault with the
// variable to change.
func (f apiFlags) config() (ingest.Config, error) {
	c := ingest.DefaultConfig()
	c.Addr, c.Tokens, c.TokenFile = f.Addr, f.Tokens, f.TokenFile
	c.TLSCert, c.TLSKey = f.TLSCert, f.TLSKey
	faults := []error{
		f.Insecure.Read("HTTP_INSECURE", &c.Insecure),
		readRate("HTTP_RATE", f.Rate, &c.Total),
		readRate("HTTP_SENDER_RATE", f.SenderRate, &c.Sender),
	}
	n, err := strconv.Atoi(f.Concurrent)
	switch {
	case err != nil || n < 0:
		faults = append(faults, fmt.Errorf("HTTP_MAX_CONCURRENT is %q: it must be a whole number, or 0 for the default", f.Concurrent))
	case n > 0:
		c.MaxConcurrent = n
	}
	return c, errors.Join(append(faults, settings.CheckPort("HTTP_ADDR", c.Addr), c.Validate())...)
}

// readRate leaves a rate that is not set, or is none, as it is.
func readRate(name, text string, into *ingest.Rate) error {
	if text == "" {
		return nil
	}
	var r cli.Rate
	if err := r.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*into = bucket(r)
	return nil
}

// bucket allows half a second's requests at once.
func bucket(r cli.Rate) ingest.Rate {
	return ingest.Rate{PerSecond: float64(r), Burst: max(1, int(r/2))}
}

// Check also reads the files with tokens and certificates.
func (c *IngestCmd) Check(a *app.App) error {
	faults := []error{a.CheckDatabase()}
	if c.Relay {
		faults = append(faults, a.CheckBroker())
	}
	config, err := c.API.config()
	if err == nil {
		_, err = ingest.NewServer(config, ingest.NewHandler(nil, slog.New(slog.DiscardHandler)))
	}
	return errors.Join(append(faults, err)...)
}

// Run listens until it is told to stop, answers what is under way, and stores
// what was taken in before it ends.
func (c *IngestCmd) Run(a *app.App) error {
	config, err := c.API.config()
	if err != nil {
		return err
	}
	return a.WithServiceDatabase(func(db *outbox.Database) error { return c.serve(a, config, db) })
}

func (c *IngestCmd) serve(a *app.App, config ingest.Config, db *outbox.Database) (err error) {
	in := &ingesting{app: a, db: db, gauge: outbox.NewGauge(db)}
	storing := outbox.StoreConfig{}
	if c.Relay {
		in.relay = newRelaying(a, db)
		storing.Stored = in.relay.relay.Wake
	}
	in.store = outbox.NewStore(db, storing)
	defer func() { err = errors.Join(err, in.closeStore()) }()
	in.handler = ingest.NewHandler(in, a.Log)
	in.handler.ReadyWhen(db.Check)
	if in.server, err = ingest.NewServer(config, in.handler); err != nil {
		return err
	}
	return a.WithAdmin(in, func() error {
		if in.relay == nil {
			return in.serve(config.Addr)
		}
		in.relay.start()
		return errors.Join(in.serve(config.Addr), in.relay.stop())
	})
}

// ingesting is a running API: the handler's store, and what the admin endpoint
// asks.
type ingesting struct {
	app     *app.App
	db      *outbox.Database
	gauge   *outbox.Gauge
	store   *outbox.Store
	handler *ingest.Handler
	server  *ingest.Server
	relay   *relaying // nil: another process publishes
}

// Add stores what came in one request.
func (in *ingesting) Add(ctx context.Context, entries []engine.Entry) ([]bool, error) {
	return in.store.Add(ctx, entries)
}

func (in *ingesting) serve(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("HTTP_ADDR: %w (another address, or port 0 for any free one)", err)
	}
	in.app.Log.Info("listening", slog.String("url", in.server.Scheme()+"://"+listener.Addr().String()+"/v1/events"))
	served := make(chan error, 1)
	go func() { served <- in.server.Serve(listener) }()
	select {
	case <-in.app.Ctx.Done():
	case err := <-served:
		return err
	}
	ctx, cancel := in.app.Clock.Context(in.app.Ctx, shutdown.CloseReserve)
	defer cancel()
	if in.server.Shutdown(ctx) != nil {
		err = in.server.Close() // a client that says nothing is no fault of the stop
	}
	if closed := <-served; !errors.Is(closed, http.ErrServerClosed) {
		err = errors.Join(err, closed)
	}
	return err
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

func (in *ingesting) WriteMetrics(to io.Writer) {
	in.server.WritePrometheus(to)
	in.store.Stats.WritePrometheus(to)
	if in.relay != nil {
		in.relay.WriteMetrics(to)
		return
	}
	writeBacklog(in.app, in.gauge, to)
}
