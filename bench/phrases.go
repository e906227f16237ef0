package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	embedtest "keyfold/bench/testserver/embeddings"
	redistest "keyfold/bench/testserver/redis"
)

// phrasesCmd measures searches: how few calls of the embedding API they take, and
// what the API's faults and those of Redis cost them and the product events.
type phrasesCmd struct {
	Only     []string      `default:"calls,faults,hangs,redis" help:"Parts to run."`
	Rate     string        `default:"150/s" help:"Events per unit of time: a third searches, a third product events of the same users, a third of users who only browse."`
	Duration time.Duration `default:"20s" help:"How long to publish in each run and phase."`
	Runs     int           `default:"3" help:"Runs without and runs with faults; medians count."`
	Phrases  int           `default:"20000" help:"Distinct phrases, few of them often."`
	Users    int           `default:"2000" help:"Users of each kind."`
	Env      []string      `default:"EMBEDDING_BATCH_WINDOW=0.2,EMBEDDING_BATCH_MAX_DELAY=1" help:"Settings of the worker, NAME=value. Long windows hide what is measured here."`

	Servers serverFlags `embed:""`
}

// latencyOfAPI is how long the embedding service takes for a good answer.
const latencyOfAPI = 50 * time.Millisecond

// daysFaults are those of a bad day; hangs, where nothing is answered, are shown
// apart, since they are the worst.
var daysFaults = embedtest.Faults{
	Latency: latencyOfAPI, RetryAfter: time.Second,
	TooMany: 0.05, ServerError: 0.02, Hang: 0.01, Truncate: 0.01, WrongDimensions: 0.01,
}

// phrases is one call of the command.
type phrases struct {
	*phrasesCmd
	*servers
	program string
	api     *embedtest.Server
	redis   *redistest.Server
	pause   time.Duration
	load    *phraseLoad
}

// Run starts the servers and goes through the parts.
func (c *phrasesCmd) Run(ctx context.Context) (err error) {
	p := &phrases{phrasesCmd: c}
	if p.pause, err = pauseOf(c.Rate); err != nil {
		return err
	}
	if p.servers, err = c.Servers.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.prepare(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"calls", p.calls}, {"faults", p.faults}, {"hangs", p.hangs}, {"redis", p.aroundRedis}} {
		if !slices.Contains(c.Only, part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func (p *phrases) prepare(ctx context.Context) (err error) {
	if p.api, err = embedtest.Launch(embedtest.Config{Key: "bench", Faults: embedtest.Faults{Latency: latencyOfAPI}}); err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { p.api.Close(); return nil })
	if p.redis, err = redistest.Launch(filepath.Join(p.dir, "redis"), "--appendfsync", "everysec"); err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { p.redis.Stop(); return nil })
	p.env = append([]string{
		"EMBEDDER=openai", "OPENAI_API_KEY=bench", "OPENAI_BASE_URL=" + p.api.URL(), "REDIS_URL=" + p.redis.URL(),
		"WORKER_RETRY_DELAY=500",
	}, p.Env...)
	if p.program, err = p.build(ctx, "keyfold/cmd/keyfold"); err != nil {
		return err
	}
	p.load = newPhraseLoad(p.servers, p.Phrases, p.Users)
	return prepare(ctx, p.servers, p.program)
}

// work starts a worker.
func (p *phrases) work() (stop func() error, err error) {
	return startWorkers(p.servers, p.program, 1, nil)
}

// calls drains searches for few phrases from empty caches, and again with a warm
// Redis and a new worker.
func (p *phrases) calls(ctx context.Context) error {
	const events, distinct = 10_000, 500
	for _, name := range []string{"empty caches", "warm Redis, new worker"} {
		load := newPhraseLoad(p.servers, distinct, p.Users)
		if err := load.preload(ctx, events, name); err != nil {
			return err
		}
		before, began := p.api.Counts(), time.Now()
		stop, err := p.work()
		if err != nil {
			return err
		}
		if err := errors.Join(load.await(ctx), stop()); err != nil {
			return err
		}
		after, took := p.api.Counts(), time.Since(began)
		if err := load.complete(0); err != nil {
			return err
		}
		keys, err := p.redis.Ask("DBSIZE")
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "calls      %-22s %d searches over %d phrases: %d phrases in %d requests, folded in %.1f s; Redis has %s\n",
			name, events, load.distinct(), after.Inputs-before.Inputs, after.Requests-before.Requests, took.Seconds(), strings.TrimPrefix(keys, ":"))
	}
	return nil
}

func (p *phrases) faults(ctx context.Context) error { return p.compare(ctx, "faults", daysFaults) }

func (p *phrases) hangs(ctx context.Context) error {
	return p.compare(ctx, "hangs", embedtest.Faults{Latency: latencyOfAPI, Hang: 0.2})
}

// compare publishes without and with faults in turn and compares each kind of
// event with itself.
func (p *phrases) compare(ctx context.Context, name string, faults embedtest.Faults) (err error) {
	stop, err := p.work()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	good := embedtest.Faults{Latency: latencyOfAPI}
	var runs [2][]phraseFigures
	sent, dead := 0, map[string]int{}
	before := p.api.Counts()
	// One run that does not count: connections and caches are empty before it.
	for n := -1; n < 2*p.Runs; n++ {
		with := n >= 0 && n%2 == 1
		p.api.SetFaults(good)
		if with {
			p.api.SetFaults(faults)
		}
		p.load.begin()
		if err := p.load.publish(ctx, p.pause, p.Duration, "all"); err != nil {
			return err
		}
		if err := p.load.await(ctx); err != nil {
			return err
		}
		if dead, err = deadReasons(p.dsn); err != nil {
			return err
		}
		if n >= 0 {
			runs[n%2] = append(runs[n%2], p.load.figures("all"))
			sent += len(p.load.sent)
		}
	}
	after := p.api.Counts()
	fmt.Fprintf(os.Stdout, "%-10s %d events at %s, %d requests for %d phrases, %d of them faulty; dead %v; nothing lost\n",
		name, sent, p.Rate, after.Requests-before.Requests, after.Inputs-before.Inputs, after.Faulty-before.Faulty, dead)
	for kind := range kinds {
		without, with := medianFigures(runs[0], kind), medianFigures(runs[1], kind)
		fmt.Fprintf(os.Stdout, "  %-32s p50 %.2f s, p99 %.2f s; with faults p50 %.2f s, p99 %.2f s: %.2f x\n",
			kinds[kind], without.p50, without.p99, with.p50, with.p99, with.p99/without.p99)
	}
	return nil
}

// aroundRedis publishes all the while Redis dies, comes back, freezes and thaws.
func (p *phrases) aroundRedis(ctx context.Context) (err error) {
	p.api.SetFaults(embedtest.Faults{Latency: latencyOfAPI})
	stop, err := p.work()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	p.load.begin()
	phases := []struct {
		name  string
		begin func() error
	}{
		{"before", func() error { return nil }},
		{"killed", func() error { p.redis.Kill(); return nil }},
		{"back", p.redis.Boot},
		{"frozen", func() error { return p.redis.Signal(syscall.SIGSTOP) }},
		{"thawed", func() error { return p.redis.Signal(syscall.SIGCONT) }},
	}
	for _, phase := range phases {
		if err := phase.begin(); err != nil {
			return err
		}
		if err := p.load.publish(ctx, p.pause, p.Duration, phase.name); err != nil {
			return err
		}
	}
	if err := errors.Join(p.load.await(ctx), p.load.complete(0)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "redis      %d events at %s, %v a phase; nothing lost\n", len(p.load.sent), p.Rate, p.Duration)
	for _, phase := range phases {
		f := p.load.figures(phase.name)
		fmt.Fprintf(os.Stdout, "  %-8s searches p50 %.2f s, p99 %.2f s; product events p50 %.2f s, p99 %.2f s\n",
			phase.name, f[search].p50, f[search].p99, f[browse].p50, f[browse].p99)
	}
	return nil
}
