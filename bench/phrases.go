package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/redistest"
	"keyfold/proof/stack"

	"keyfold/source/sample"
	"keyfold/source/vector/openai"
)

// phrasesCmd measures searches: how few calls of the embedding API they take, and
// what the API's faults and those of Redis cost them and the product events.
type phrasesCmd struct {
	Only     []string      `default:"calls,faults,hangs,redis" help:"Parts to run."`
	Rate     rate          `default:"150/s" help:"Events per unit of time: a third searches, a third product events of the same users, a third of users who only browse."`
	Duration time.Duration `default:"20s" help:"How long to publish in each run and phase."`
	Runs     int           `default:"3" help:"Runs without and runs with faults; medians count."`
	Phrases  int           `default:"20000" help:"Distinct phrases, few of them often."`
	Users    int           `default:"2000" help:"Users of each kind."`
	Env      []string      `default:"EMBEDDING_BATCH_WINDOW=0.2,EMBEDDING_BATCH_MAX_DELAY=1" help:"Settings of the worker, NAME=value. Long windows hide what is measured here."`

	Broker brokerFlag `embed:""`
	Store  storeFlag  `embed:""`
}

// latencyOfAPI is how long the embedding service takes for a good answer.
const latencyOfAPI = 50 * time.Millisecond

// apiFaults are those of a bad day; hangs, where nothing is answered, are shown
// apart, since they are the worst.
var apiFaults = map[string]embedtest.Faults{
	"faults": {
		Latency: latencyOfAPI, RetryAfter: time.Second,
		TooMany: 0.05, ServerError: 0.02, Hang: 0.01, Truncate: 0.01, WrongDimensions: 0.01,
	},
	"hangs": {Latency: latencyOfAPI, Hang: 0.2},
}

// Kinds of events, by whether they may have to wait for the embedding API.
const (
	search = iota // of users who also view products
	beside        // product views of the same users
	browse        // product views of users who never search
)

var kinds = [...]string{"searches", "product events of searchers", "product events of others"}

// phrases is one call of the command.
type phrases struct {
	*phrasesCmd
	*stack.Stack
	api   *embedtest.Server
	redis *redistest.Server
	dead  int // dead letters before the load under way
	loads int
	texts *phraseMaker

	report *report.Report
}

// Run starts the servers and goes through the parts.
func (c *phrasesCmd) Run(ctx context.Context, r *report.Report) error {
	return onStack(ctx, r, c.Broker.RabbitMQ, c.Store.MongoDB, c.measure)
}

func (c *phrasesCmd) measure(ctx context.Context, s *stack.Stack, r *report.Report) error {
	p := &phrases{phrasesCmd: c, Stack: s, report: r}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	for _, part := range []string{"calls", "faults", "hangs", "redis"} {
		if !slices.Contains(c.Only, part) {
			continue
		}
		var err error
		switch part {
		case "calls":
			err = p.calls(ctx)
		case "redis":
			err = p.aroundRedis(ctx)
		default:
			err = p.compare(ctx, part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

func (p *phrases) prepare(ctx context.Context) (err error) {
	if p.api, err = embedtest.Launch(embedtest.Config{Key: "bench", Faults: embedtest.Faults{Latency: latencyOfAPI}}); err != nil {
		return err
	}
	p.AtEnd(p.api.Close)
	if p.redis, err = redistest.Launch(filepath.Join(p.Dir, "redis"), "--appendfsync", "everysec"); err != nil {
		return err
	}
	p.AtEnd(p.redis.Stop)
	p.Profiles.Model = openai.DefaultModel
	p.Stack.Env = append(p.Stack.Env, append([]string{
		"EMBEDDER=openai", "OPENAI_API_KEY=bench", "OPENAI_BASE_URL=" + p.api.URL(), "REDIS_URL=" + p.redis.URL(),
		"WORKER_RETRY_DELAY=500",
	}, p.phrasesCmd.Env...)...)
	p.texts = newPhraseMaker(p.Phrases, p.Users)
	return p.SetUp(ctx, p.texts.products)
}

// load prepares a load of these texts.
func (p *phrases) load(texts *phraseMaker, phases ...phase) *load {
	p.loads++
	l := newLoad(p.Stack, p.Rate, fmt.Sprint(p.loads), phases...)
	l.event = texts.event
	return l
}

// await waits until every event is in a profile or a dead letter, and returns how
// many dead letters there are more.
func (p *phrases) await(ctx context.Context, l *load) (letters int, err error) {
	err = l.await(ctx, 5*time.Minute, func(ctx context.Context) (int, error) {
		n, err := deadLetters(ctx, p.Stack)
		letters = n - p.dead
		return letters, err
	})
	p.dead += letters
	if err == nil && l.missing != letters {
		err = fmt.Errorf("%d of %d events are in no profile, %d of them are dead letters", l.missing, len(l.sent), letters)
	}
	return letters, err
}

// awaitAll is await where there must be no dead letter.
func (p *phrases) awaitAll(ctx context.Context, l *load) error {
	letters, err := p.await(ctx, l)
	if err == nil && letters > 0 {
		err = fmt.Errorf("%d dead letters", letters)
	}
	return err
}

// calls drains searches for few phrases from empty caches, and again with a warm
// Redis and a new worker.
func (p *phrases) calls(ctx context.Context) error {
	const events, distinct = 10_000, 500
	for _, name := range []string{"empty caches", "warm Redis, new worker"} {
		texts := newPhraseMaker(distinct, p.Users)
		l := p.load(texts)
		l.event = texts.search
		if err := l.preload(ctx, events); err != nil {
			return err
		}
		before, began := p.api.Counts(), time.Now()
		stop, err := p.Launch(nil, "work")
		if err != nil {
			return err
		}
		if err := errors.Join(p.awaitAll(ctx, l), stop()); err != nil {
			return err
		}
		after, took := p.api.Counts(), time.Since(began)
		keys, err := p.redis.Ask("DBSIZE")
		if err != nil {
			return err
		}
		cached, err := strconv.Atoi(strings.TrimPrefix(keys, ":"))
		if err != nil {
			return err
		}
		add := p.report.Of(name)
		add("searches", "", events)
		add("their phrases", "", float64(len(texts.drawn)))
		add("phrases asked for", "", float64(after.Inputs-before.Inputs))
		add("requests", "", float64(after.Requests-before.Requests))
		add("folded in", "s", took.Seconds())
		add("in Redis", "", float64(cached))
	}
	return nil
}

// compare publishes without and with faults of the API in turn and compares each
// kind of event with itself.
func (p *phrases) compare(ctx context.Context, name string) (err error) {
	stop, err := p.Launch(nil, "work")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	sent, dead := 0, map[string]int{}
	before := p.api.Counts()
	err = inTurn(p.Runs, func(n int, faulty bool) (err error) {
		p.api.SetFaults(embedtest.Faults{Latency: latencyOfAPI})
		with := ""
		if faulty {
			with = ", with " + name
			p.api.SetFaults(apiFaults[name])
		}
		l := p.load(p.texts, phase{span: p.Duration})
		if err := l.run(ctx); err != nil {
			return err
		}
		if _, err := p.await(ctx, l); err != nil {
			return err
		}
		if n >= 0 {
			sent += len(l.sent)
			for kind := range kinds {
				l.figures(p.report, name+": "+kinds[kind]+with, 0, kind)
			}
		}
		dead, err = deadReasons(ctx, p.Stack)
		return err
	})
	if err != nil {
		return err
	}
	after, r := p.api.Counts(), p.report
	r.Add(name+": events", "", float64(sent))
	r.Add(name+": requests", "", float64(after.Requests-before.Requests))
	r.Add(name+": phrases asked for", "", float64(after.Inputs-before.Inputs))
	r.Add(name+": faulty requests", "", float64(after.Faulty-before.Faulty))
	for _, reason := range slices.Sorted(maps.Keys(dead)) {
		r.Add(name+": dead as "+reason, "events", float64(dead[reason]))
	}
	for kind := range kinds {
		of := name + ": " + kinds[kind]
		r.Add(of+", p99 with "+name, "x", r.Median(of+", with "+name, "p99")/r.Median(of, "p99"))
	}
	return nil
}

// aroundRedis publishes all the while Redis dies, comes back, freezes and thaws.
func (p *phrases) aroundRedis(ctx context.Context) (err error) {
	p.api.SetFaults(embedtest.Faults{Latency: latencyOfAPI})
	stop, err := p.Launch(nil, "work")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	l := p.load(p.texts,
		phase{"before", p.Duration, nil},
		phase{"killed", p.Duration, func() error { p.redis.Kill(); return nil }},
		phase{"back", p.Duration, p.redis.Boot},
		phase{"frozen", p.Duration, func() error { return p.redis.Signal(syscall.SIGSTOP) }},
		phase{"thawed", p.Duration, func() error { return p.redis.Signal(syscall.SIGCONT) }},
	)
	if err := l.run(ctx); err != nil {
		return err
	}
	if err := p.awaitAll(ctx, l); err != nil {
		return err
	}
	p.report.Add("redis: events, none lost", "", float64(len(l.sent)))
	for i, phase := range l.phases {
		p.report.Latency("redis "+phase.name+": searches", l.latencies(i, search))
		p.report.Latency("redis "+phase.name+": product events", l.latencies(i, browse))
	}
	return nil
}

// phraseMaker makes searches and product events.
type phraseMaker struct {
	users    int
	products []profile.Product
	zipf     *rand.Zipf
	drawn    map[uint64]bool // phrases, by their numbers
}

func newPhraseMaker(phrases, users int) *phraseMaker {
	return &phraseMaker{
		users: users, products: sample.Products(), drawn: map[uint64]bool{},
		zipf: rand.NewZipf(rand.New(rand.NewPCG(uint64(phrases), 1)), 1.1, 8, uint64(phrases-1)),
	}
}

// event makes an event; the kinds come in turn.
func (m *phraseMaker) event(i int, id string) (body []byte, kind int, err error) {
	kind = i % len(kinds)
	if kind == search {
		return m.search(i, id)
	}
	user := 1 + rand.IntN(m.users)
	if kind == browse {
		user += m.users
	}
	return phraseBody(user, fmt.Sprintf(`"event_type":"product_view","product_id":%d`, m.products[rand.IntN(len(m.products))].ID), id), kind, nil
}

// search makes a search.
func (m *phraseMaker) search(_ int, id string) (body []byte, kind int, err error) {
	n := m.zipf.Uint64()
	m.drawn[n] = true
	return phraseBody(1+rand.IntN(m.users), fmt.Sprintf(`"event_type":"search","search_phrase":"thing number %d"`, n), id), search, nil
}

func phraseBody(user int, what, id string) []byte {
	return fmt.Appendf(nil, `{"user_id":%d,%s,"occurred_at":%q,"message_id":%q}`, user, what, time.Now().UTC().Format(timeFormat), id)
}
