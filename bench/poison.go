package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/internal/testserver/mongotest"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// poisonCmd publishes the same load without and with events that can never be
// folded, in turn, and compares how long the healthy ones take.
type poisonCmd struct {
	Rate     rate          `default:"200/s" help:"Healthy events per unit of time."`
	Duration time.Duration `default:"30s" help:"How long to publish in each run."`
	Runs     int           `default:"3" help:"Runs without and runs with poison; medians count."`
	Every    int           `default:"100" help:"One poisonous event for so many healthy ones."`
	Workers  int           `default:"1" help:"keyfold work processes to start."`
	Users    int           `default:"400" help:"Users the events are spread over."`
	Env      []string      `help:"Settings of the workers, NAME=value."`

	Broker brokerFlag `embed:""`
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
func (c *poisonCmd) Run(ctx context.Context, r *report.Report) error {
	if c.Every < 1 || c.Runs < 1 {
		return fmt.Errorf("--every %d and --runs %d: both must be at least 1", c.Every, c.Runs)
	}
	return onStack(ctx, r, c.Broker.RabbitMQ, "", c.measure)
}

func (c *poisonCmd) measure(ctx context.Context, s *stack.Stack, r *report.Report) error {
	if err := startWorkers(ctx, s, sample.Products(), c.Workers, c.Env); err != nil {
		return err
	}
	if err := poisonStore(ctx, s); err != nil {
		return err
	}
	return c.compare(ctx, s, r)
}

// poisonStore puts a product without a usable vector into the store, and has the
// store reject one user's document.
func poisonStore(ctx context.Context, s *stack.Stack) error {
	store, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	short := profile.Product{ID: shortProduct, Name: "short", Model: vector.HashModel, Vector: []float32{1}}
	if err := store.PutProducts(ctx, []profile.Product{short}, engine.Now()); err != nil {
		return err
	}
	at, err := url.Parse(s.Profiles.URI)
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

func (c *poisonCmd) compare(ctx context.Context, s *stack.Stack, r *report.Report) error {
	expected := map[string]int{}
	err := inTurn(c.Runs, func(n int, poisoned bool) error {
		l := newLoad(s, c.Rate, fmt.Sprint(n+1), phase{span: c.Duration})
		l.event = sampleEvents(l.events()/8, c.Users, true)
		name := "healthy events, without"
		if poisoned {
			name = "healthy events, with poison"
			l.beside = func(ctx context.Context, i int) error { return c.poison(ctx, l, i, expected) }
		}
		if err := l.run(ctx); err != nil {
			return err
		}
		if err := l.await(ctx, awaitLimit, noDeadLetters); err != nil {
			return err
		}
		if l.missing > 0 {
			return fmt.Errorf("%d healthy events did not reach a profile", l.missing)
		}
		if n >= 0 {
			l.figures(r, name, 0, 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	found, err := deadReasons(ctx, s)
	if err != nil {
		return err
	}
	r.Add("p99 with poison", "x", r.Median("healthy events, with poison", "p99")/r.Median("healthy events, without", "p99"))
	for _, reason := range slices.Sorted(maps.Keys(expected)) {
		r.Add("published as "+reason, "events", float64(expected[reason]))
		r.Add("dead as "+reason, "events", float64(found[reason]))
	}
	if !maps.Equal(expected, found) {
		return fmt.Errorf("dead letters are %v, want %v", found, expected)
	}
	return nil
}

// poison publishes one poisonous event for every so many healthy ones and counts
// it under its reason.
func (c *poisonCmd) poison(ctx context.Context, l *load, i int, expected map[string]int) error {
	if i%c.Every != 0 {
		return nil
	}
	kind, names := poisons[i/c.Every%len(poisons)], rabbit.DefaultNames()
	id := fmt.Sprintf("poison-%d-%s-%d", os.Getpid(), l.mark, i)
	m := rabbit.Message{
		Exchange: names.Exchange, RoutingKey: names.RoutingKey(profile.ProductView), ID: id,
		Timestamp: time.Now(), Body: kind.body(id, time.Now()),
	}
	expected[kind.reason]++
	return l.publisher.Publish(ctx, []rabbit.Message{m})[0]
}

// deadReasons counts the dead letters by reason.
func deadReasons(ctx context.Context, s *stack.Stack) (map[string]int, error) {
	letters, err := s.DeadLetters(ctx)
	reasons := map[string]int{}
	for _, l := range letters {
		reasons[l.Reason]++
	}
	return reasons, err
}
