package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.mongodb.org/mongo-driver/v2/bson"

	mongotest "keyfold/bench/testserver/mongodb"
	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/vector"
)

// poisonCmd publishes the same load without and with events that can never be
// folded, in turn, and compares how long the healthy ones take.
type poisonCmd struct {
	Rate     string        `default:"200/s" help:"Healthy events per unit of time."`
	Duration time.Duration `default:"30s" help:"How long to publish in each run."`
	Runs     int           `default:"3" help:"Runs without and runs with poison; medians count."`
	Every    int           `default:"100" help:"One poisonous event for so many healthy ones."`
	Workers  int           `default:"1" help:"keyfold work processes to start."`
	Users    int           `default:"400" help:"Users the events are spread over."`
	Env      []string      `help:"Settings of the workers, NAME=value."`

	RabbitMQ string `name:"rabbitmq-dsn" env:"BENCH_RABBITMQ_DSN" placeholder:"DSN" help:"Broker to use; default: a private one."`
}

// poison makes a body that can never be folded, and the reason it is to be
// dead-lettered with.
type poison struct {
	reason string
	body   func(id string, now time.Time) []byte
}

const (
	rejectedUser = 2_000_000_001 // whose profile the store refuses
	shortProduct = 2_000_000_001 // whose vector is too short
)

func productView(user, product int32) func(string, time.Time) []byte {
	return func(id string, now time.Time) []byte {
		return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","product_id":%d,"occurred_at":%q,"message_id":%q}`,
			user, product, now.UTC().Format(time.RFC3339), id)
	}
}

// poisons come in turn, to users that have healthy events beside them where the
// kind allows it.
var poisons = []poison{
	{engine.ReasonMalformedJSON, func(string, time.Time) []byte { return []byte(`{"user_id":1,"event_type":`) }},
	{"wrong_dimensions", productView(1, shortProduct)},
	{engine.ReasonIDOutOfRange, productView(0, 1)},
	{"document_rejected", productView(rejectedUser, 1)},
}

// Run measures both kinds of runs in turn and prints them side by side.
func (c *poisonCmd) Run(ctx context.Context) (err error) {
	pause, err := pauseOf(c.Rate)
	if err != nil {
		return err
	}
	if c.Every < 1 || c.Runs < 1 {
		return fmt.Errorf("--every %d and --runs %d: both must be at least 1", c.Every, c.Runs)
	}
	s, err := serverFlags{RabbitMQ: c.RabbitMQ}.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	program, err := s.build(ctx, "keyfold/cmd/keyfold")
	if err != nil {
		return err
	}
	if err := errors.Join(prepare(ctx, s, program), poisonStore(ctx, s)); err != nil {
		return err
	}
	stop, err := startWorkers(s, program, c.Workers, c.Env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return c.compare(ctx, s, pause)
}

// poisonStore puts a product without a usable vector into the store, and has the
// store reject one user's document.
func poisonStore(ctx context.Context, s *servers) error {
	c := mongodb.DefaultConfig()
	c.URI, c.Model = s.mongo, vector.HashModel
	store, err := mongodb.Open(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	short := engine.Product{ID: shortProduct, Name: "short", Model: vector.HashModel, Vector: []float32{1}}
	if err := store.PutProducts(ctx, []engine.Product{short}, engine.Now()); err != nil {
		return err
	}
	at, err := url.Parse(s.mongo)
	if err != nil {
		return err
	}
	remote, err := mongotest.Dial(ctx, at.Host)
	if err != nil {
		return err
	}
	defer remote.Close()
	match, err := bson.Marshal(bson.D{{Key: "user_id", Value: int32(rejectedUser)}})
	if err != nil {
		return err
	}
	_, err = remote.Inject(mongotest.Fault{WriteError: 121, Namespace: "keyfold.user_embeddings", Match: match})
	return err
}

// poisonRun is what one run came to, in seconds.
type poisonRun struct{ p50, p99 float64 }

func (c *poisonCmd) compare(ctx context.Context, s *servers, pause time.Duration) error {
	expected := map[string]int{}
	var runs [2][]poisonRun
	// One run that does not count: connections and caches are empty before it.
	for n := -1; n < 2*c.Runs; n++ {
		with := n >= 0 && n%2 == 1
		r := &loadRun{servers: s, mark: fmt.Sprintf("%d-", n+1), sent: map[engine.AppliedID]time.Time{}}
		if with {
			r.beside = c.poison(r.mark, expected)
		}
		if err := errors.Join(r.publish(ctx, pause, c.Duration, c.Users), r.await(ctx)); err != nil {
			return err
		}
		if r.missing > 0 {
			return fmt.Errorf("%d healthy events did not reach a profile", r.missing)
		}
		run := poisonRun{seconds(r.latency.ValueAtQuantile(50)), seconds(r.latency.ValueAtQuantile(99))}
		if n >= 0 {
			runs[n%2] = append(runs[n%2], run)
		}
	}
	without, with := medianRun(runs[0]), medianRun(runs[1])
	found, err := deadReasons(s.dsn)
	if err != nil {
		return err
	}
	return errors.Join(c.report(os.Stdout, without, with, expected, found), differ(expected, found))
}

// poison publishes one poisonous event for every so many healthy ones and counts
// it under its reason.
func (c *poisonCmd) poison(mark string, expected map[string]int) func(context.Context, *rabbit.Publisher, int) error {
	names := rabbit.DefaultNames()
	return func(ctx context.Context, p *rabbit.Publisher, i int) error {
		if i%c.Every != 0 {
			return nil
		}
		kind := poisons[i/c.Every%len(poisons)]
		id := fmt.Sprintf("poison-%d-%s%d", os.Getpid(), mark, i)
		m := rabbit.Message{
			Exchange: names.Exchange, RoutingKey: names.RoutingKey(engine.ProductView), ID: id,
			Timestamp: time.Now(), Body: kind.body(id, time.Now()),
		}
		expected[kind.reason]++
		return p.Publish(ctx, []rabbit.Message{m})[0]
	}
}

func medianRun(runs []poisonRun) poisonRun {
	slices.SortFunc(runs, func(a, b poisonRun) int { return int((a.p99 - b.p99) * 1e6) })
	return runs[len(runs)/2]
}

// deadReasons counts the dead letters by reason and takes none.
func deadReasons(dsn string) (map[string]int, error) {
	conn, err := amqp.Dial(dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	reasons := map[string]int{}
	for {
		d, ok, err := channel.Get(rabbit.DefaultNames().DeadLetters, false)
		if err != nil || !ok {
			return reasons, err
		}
		reasons[fmt.Sprint(d.Headers["x-first-death-reason"])]++
	}
}

func differ(expected, found map[string]int) error {
	if !maps.Equal(expected, found) {
		return fmt.Errorf("dead letters are %v, want %v", found, expected)
	}
	return nil
}

func (c *poisonCmd) report(w io.Writer, without, with poisonRun, expected, found map[string]int) error {
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(found)) {
		reasons = append(reasons, fmt.Sprintf("%s %d of %d", reason, found[reason], expected[reason]))
	}
	_, err := fmt.Fprintf(w, `published  at %s for %v, %d workers, one poisonous event for %d healthy ones; medians of %d runs each, in turn
without    p50 %.2f s, p99 %.2f s from event to profile
with       p50 %.2f s, p99 %.2f s (%+.1f %%), of the healthy events
dead       %s
`,
		c.Rate, c.Duration, c.Workers, c.Every, c.Runs,
		without.p50, without.p99, with.p50, with.p99, 100*(with.p99/without.p99-1), strings.Join(reasons, ", "))
	return err
}
