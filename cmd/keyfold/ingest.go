package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"keyfold/cmd/settings"
	"keyfold/cmd/shutdown"
	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/source/ingest"
	"keyfold/source/outbox"
)

// ingestCmd takes events over HTTP and stores them.
type ingestCmd struct {
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
	var r rate
	if err := r.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*into = r.bucket()
	return nil
}

// bucket allows half a second's requests at once.
func (r rate) bucket() ingest.Rate {
	return ingest.Rate{PerSecond: float64(r), Burst: max(1, int(r/2))}
}

// check also reads the files with tokens and certificates.
func (c *ingestCmd) check(a *app) error {
	faults := []error{a.checkDatabase()}
	if c.Relay {
		faults = append(faults, a.checkBroker())
	}
	config, err := c.API.config()
	if err == nil {
		_, err = ingest.NewServer(config, ingest.NewHandler(nil, slog.New(slog.DiscardHandler)))
	}
	return errors.Join(append(faults, err)...)
}

// Run listens until it is told to stop, answers what is under way, and stores
// what was taken in before it ends.
func (c *ingestCmd) Run(a *app) (err error) {
	config, err := c.API.config()
	if err != nil {
		return err
	}
	db, err := startedDatabase(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	in := &ingesting{app: a, db: db, gauge: outbox.NewGauge(db)}
	storing := outbox.StoreConfig{}
	if c.Relay {
		in.relay = newRelaying(a, db)
		storing.Stored = in.relay.relay.Wake
	}
	in.store = outbox.NewStore(db, storing)
	defer func() { err = errors.Join(err, in.closeStore()) }()
	in.handler = ingest.NewHandler(in, a.log)
	in.handler.ReadyWhen(db.Check)
	if in.server, err = ingest.NewServer(config, in.handler); err != nil {
		return err
	}
	admin, err := startAdmin(a.servers.Admin, in, a.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.close()) }()
	if in.relay != nil {
		in.relay.start()
		defer func() { err = errors.Join(err, in.relay.stop()) }()
	}
	return in.serve(c.API.Addr)
}

// ingesting is a running API: the handler's store, and what the admin endpoint
// asks.
type ingesting struct {
	*app
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
	in.log.Info("listening", slog.String("url", in.server.Scheme()+"://"+listener.Addr().String()+"/v1/events"))
	served := make(chan error, 1)
	go func() { served <- in.server.Serve(listener) }()
	select {
	case <-in.ctx.Done():
	case err := <-served:
		return err
	}
	ctx, cancel := in.clock.Context(in.ctx, shutdown.CloseReserve)
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
	ctx, cancel := in.clock.Context(in.ctx, shutdown.ConnCloseTimeout)
	defer cancel()
	return in.store.Close(ctx)
}

func (in *ingesting) ready(context.Context) error { return in.handler.Ready() }

// notes: events are stored whether or not they can be published, and whatever
// is wrong with the tokens of some senders.
func (in *ingesting) notes() (notes []string) {
	if err := in.server.TokenFault(); err != nil {
		notes = append(notes, "HTTP_TOKEN_FILE: "+err.Error())
	}
	if in.relay != nil {
		notes = append(notes, in.relay.notes()...)
	}
	return notes
}

func (in *ingesting) register(set *metric.Set) {
	in.server.Register(set)
	in.store.Stats.Register(set)
	if in.relay != nil {
		in.relay.register(set)
		return
	}
	in.gauge.Register(in.ctx, set)
}
