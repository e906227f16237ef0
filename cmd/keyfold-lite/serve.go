package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/sourcegraph/conc"

	"keyfold/internal/shutdown"
	"keyfold/service/profile/api"
	"keyfold/service/profile/recommend"
	"keyfold/source/httpapi"
	"keyfold/source/ingest"
)

// serveCmd takes events and recommends products over HTTP, without an input to fold first.
type serveCmd struct {
	Products string `name:"products" placeholder:"FILE" help:"NDJSON products to import first; those without a vector are embedded offline."`
	Addr     string `name:"http-addr" env:"HTTP_ADDR" default:"127.0.0.1:7080" help:"Listen address of the HTTP API."`
}

// Service marks a command that runs until it is told to stop.
func (c *serveCmd) Service() {}

// Check refuses an address that is not served.
func (c *serveCmd) Check(*app) error { return checkAddr(c.Addr) }

// Run serves until it is told to stop.
func (c *serveCmd) Run(a *app) error {
	run := runCmd{Products: c.Products, Addr: c.Addr, serveOnly: true}
	return run.Run(a)
}

func checkAddr(addr string) error {
	if err := apiConfig(addr).Validate(); err != nil {
		return err
	}
	if !httpapi.OnLoopback(addr) {
		return fmt.Errorf("HTTP_ADDR is %q: only loopback addresses are served, since requests are neither authenticated nor encrypted; "+
			"set 127.0.0.1:7080, and put a reverse proxy with both in front to reach it from elsewhere", addr)
	}
	return nil
}

// listen takes the port before anything is folded, so that a run of hours does
// not end at it.
func listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w (another address: --http-addr 127.0.0.1:PORT)", err)
	}
	return listener, nil
}

// apiConfig returns the settings of an API for this machine alone: its rate is what the
// disk takes.
func apiConfig(addr string) httpapi.Config {
	c := httpapi.DefaultConfig()
	c.Addr, c.Total, c.Sender = addr, httpapi.Rate{}, httpapi.Rate{}
	c.Insecure = true // checkAddr has judged the address
	return c
}

// serve takes events and recommends products until the program is told to stop or a fault
// ends it.
func serve(n *runtime, addr string, listener net.Listener) (err error) {
	recommender, follower, err := newRecommender(n.app, n.file.Reader, recommend.DefaultConfig())
	if err != nil {
		return err
	}
	reading := api.New(api.Ports{Recommender: recommender, Ready: func(context.Context) error { return follower.Ready() }})
	decided, closeDecided, err := decisionsBeside(n.app)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDecided()) }()
	pages, err := newPages(n, recommender, decided)
	if err != nil {
		return err
	}
	apis := httpapi.Join(ingest.New(n.intake.store, n.intake.ready), reading, pages)
	server, err := httpapi.NewServer(apiConfig(addr), httpapi.NewHandler(apis, n.log.With("component", "ingest")))
	if err != nil {
		return err
	}
	n.intake.start()
	stop, cancel := context.WithCancel(n.ctx)
	var following conc.WaitGroup
	following.Go(func() { follower.Run(stop) })
	following.Go(func() { pages.Run(stop) })
	defer following.Wait()
	defer cancel()
	defer context.AfterFunc(n.failed, cancel)()
	fmt.Fprintf(n.Stderr, "listening on http://%s: POST /v1/events, GET /v1/users/ID/recommendations; pages: http://%s%s/; stop with Ctrl-C\n",
		listener.Addr(), listener.Addr(), pagesPath)
	half := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithoutCancel(n.ctx), n.config.Timeout/2)
	}
	// Requests under way are answered and go to their windows, which close then.
	if err = shutdown.Serve(stop, server, listener, half); stop.Err() == nil {
		return err
	}
	ctx, release := half()
	defer release()
	return errors.Join(err, n.intake.settle(ctx))
}
