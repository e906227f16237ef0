package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"keyfold/engine/profile"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
)

// composeCmd runs docker-compose.yml.
type composeCmd struct {
	Program string        `name:"compose" default:"docker-compose" help:"The program of Docker Compose, version 2."`
	Seed    uint64        `help:"Of the events; 0: a new one, which is printed."`
	Events  int           `default:"2000" help:"Events with one queue, and as many with partitions."`
	Rate    int           `default:"40" help:"Events a second."`
	Away    time.Duration `default:"45s" help:"How long a worker is cut off the network: with partitions half as long."`
	Without []string      `default:"grafana" help:"Services that are left out."`
	Data    string        `env:"KEYFOLD_TEST_DATA" placeholder:"DIR" help:"Folder of real event logs."`
}

// composeLimit bounds a failure.
const composeLimit = 20 * time.Minute

// Run starts what the file has, profile by profile, and ends it.
func (c *composeCmd) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, composeLimit)
	defer cancel()
	c.Seed = seedOr(c.Seed)
	fmt.Fprintf(os.Stdout, "seed %d\n", c.Seed)
	s, err := newComposition(*c)
	if err != nil {
		return err
	}
	if err := s.down(); err != nil { // what a run left that was killed
		return err
	}
	defer func() { err = errors.Join(err, s.Close(), s.down()) }()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"up", func(ctx context.Context) error { return s.up(ctx, 3) }},
		{"import the catalogue", s.load},
		{"events through one queue", func(ctx context.Context) error { return s.events(ctx, c.Away) }},
		{"up with 16 partitions and notifications", s.partition},
		{"events through partitions", func(ctx context.Context) error { return s.events(ctx, c.Away/2) }},
		{"notifications", s.notifications},
		{"up with observability", s.observe},
	} {
		s.say("%s", step.name)
		if err := step.do(ctx); err != nil {
			s.tell()
			return fmt.Errorf("seed %d: %s: %w", c.Seed, step.name, err)
		}
	}
	fmt.Fprintln(os.Stdout, nothingWrong)
	return nil
}

// composition is one run of the file.
type composition struct {
	composeCmd
	*session
	profiles   []string
	partitions string // RABBITMQ_PARTITIONS
	token      string // of the APIs
	traffic    *traffic
	ledger     *ledger
	next       int // message
	faulty     int // messages that were published so far
}

// ports that the file publishes.
const (
	composeBroker     = "amqp://guest:guest@127.0.0.1:5672/"
	composeStore      = "mongodb://127.0.0.1:27017/?directConnection=true"
	composeLedger     = "postgres://keyfold:keyfold@127.0.0.1:5432/keyfold"
	composeIngest     = "127.0.0.1:7080"
	composeServe      = "127.0.0.1:7082"
	composeNotify     = "127.0.0.1:7081"
	composePrometheus = "http://127.0.0.1:9091"
)

func newComposition(c composeCmd) (s *composition, err error) {
	s = &composition{composeCmd: c, session: newSession(stack.New(""), os.Stdout)}
	s.DSN, s.Profiles.URI = composeBroker, composeStore
	if s.traffic, err = newTraffic(c.Seed, 2*c.Events, c.Data, 0); err != nil {
		return nil, err
	}
	s.traffic.products = asked(s.traffic)
	s.ledger, err = newLedger(profile.DefaultConfig().Dimensions, 0, s.traffic.products)
	return s, err
}

// asked returns the products of the traffic's events: a log's whole catalogue would take minutes.
func asked(t *traffic) (products []profile.Product) {
	wanted := map[int32]bool{}
	for i := range t.messages {
		if e, good := parse(t.messages[i].Body); good {
			wanted[e.ProductID] = true
		}
	}
	for _, p := range t.products {
		if wanted[p.ID] {
			products = append(products, p)
		}
	}
	return products
}

// events posts half of the events while a worker is cut off the network, and compares all profiles
// with the oracle.
func (s *composition) events(ctx context.Context, away time.Duration) error {
	posted := make(chan error, 1)
	go func() { posted <- s.post(ctx) }()
	err := s.scale(ctx, 5)
	if err == nil {
		err = s.cut(ctx, away)
	}
	if err = errors.Join(err, <-posted); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.status(ctx); err != nil {
		return err
	}
	return s.show(ctx)
}

// mostFaulty is how many dead letters need no person.
const mostFaulty = 10

// post has the API take the next events, and publishes what the API would refuse, as another publisher
// may, with some of it left out.
func (s *composition) post(ctx context.Context) error {
	const each = 25
	f := &feed{publisher: s.publisher("feed"), ledger: s.ledger}
	ticker := time.NewTicker(each * time.Second / time.Duration(s.Rate))
	defer ticker.Stop()
	for end := min(s.next+len(s.traffic.messages)/2+1, len(s.traffic.messages)); s.next < end; {
		var good, faulty []rabbit.Message
		for _, m := range s.traffic.messages[s.next:min(s.next+each, end)] {
			if _, ok := parse(m.Body); ok {
				good = append(good, m)
			} else if s.faulty < mostFaulty {
				s.faulty++
				faulty = append(faulty, m)
			}
			s.next++
		}
		f.messages = append(f.messages, faulty...)
		if err := errors.Join(s.accept(ctx, good), f.publish(ctx, len(faulty))); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// accept has the API take events.
func (s *composition) accept(ctx context.Context, messages []rabbit.Message) error {
	bodies := make([]string, len(messages))
	for i, m := range messages {
		bodies[i] = string(m.Body)
	}
	if err := s.postUntil(ctx, composeIngest, "/v1/events", bodies); err != nil {
		return err
	}
	for i := range messages {
		if err := s.ledger.add(&messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// postUntil posts JSON values until they are accepted.
func (s *composition) postUntil(ctx context.Context, address, path string, values []string) error {
	if len(values) == 0 {
		return nil
	}
	body := []byte("[" + strings.Join(values, ",") + "]")
	return stack.Poll(ctx, 200*time.Millisecond, func() (bool, error) {
		err := postTo(address, path, s.token, body)
		if errors.Is(err, errRefused) {
			return false, err
		}
		return err == nil, nil
	})
}

// settle waits until every event is in its profile, and nothing else is.
func (s *composition) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	var f *findings
	err := stack.Poll(ctx, 2*time.Second, func() (bool, error) {
		var err error
		if f, err = verify(context.WithoutCancel(ctx), s.Stack, s.ledger); err != nil {
			return false, err
		}
		return f.err() == nil, nil
	})
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.err())
		}
		return err
	}
	events := 0
	for _, e := range s.ledger.events {
		events += len(e)
	}
	s.say("%d events of %d users and %d dead letters: 0 lost, 0 doubled (real logs: %v)", events, len(s.ledger.events), f.letters, s.traffic.logs)
	return nil
}
