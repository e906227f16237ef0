package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/proof/stack"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/stream"
	"keyfold/source/stream/reader"
	"keyfold/source/stream/writer"
)

// loadCmd publishes at a rate to running workers and reports how long an event
// takes to reach its profile.
type loadCmd struct {
	Rate     rate          `default:"1000/min" help:"Events per unit of time: 1000/min, 200/s."`
	Duration time.Duration `default:"60s" help:"How long to publish."`
	Workers  int           `default:"3" help:"keyfold work processes to start."`
	Users    int           `default:"400" help:"Users the events are spread over."`
	Env      []string      `help:"Settings of the workers, NAME=value."`
	Programs string        `placeholder:"DIR" help:"Folder with the keyfold to measure; default: this tree's is built."`

	Partitions int `default:"${partitions}" help:"Partition queues, on RabbitMQ 4; 0: the workers compete for one queue."`
	Streams    int `env:"RABBITMQ_STREAMS" help:"Streams, on RabbitMQ 4 with its stream protocol, by which is published then; 0: queues."`

	Broker brokerFlag `embed:""`
	Store  storeFlag  `embed:""`
	Log    logFlag    `embed:""`
}

// Run starts what is needed, publishes, waits until all is folded, and reports.
func (c *loadCmd) Run(ctx context.Context, r *report.Report) error {
	if c.Streams > 0 && c.Broker.RabbitMQ != "" {
		return errors.New("--streams needs the test server, whose stream port is known: leave the address of the broker out")
	}
	return onServers(ctx, r, func(s *stack.Stack) {
		s.Streams = c.Streams > 0
		s.DSN, s.Profiles.URI, s.Programs = c.Broker.RabbitMQ, c.Store.MongoDB, c.Programs
		if c.Partitions > 0 {
			s.RabbitMQ, s.Env = 4, append(s.Env, "RABBITMQ_PARTITIONS="+strconv.Itoa(c.Partitions))
		}
	}, c.measure)
}

func (c *loadCmd) measure(ctx context.Context, s *stack.Stack, r *report.Report) error {
	l := newLoad(s, c.Rate, "", phase{span: c.Duration})
	bodies, products, err := c.Log.bodies(r, func() [][]byte { return sampleBodies(l.events()/8, c.Users) })
	if err != nil {
		return err
	}
	if c.Log.Events != "" {
		r.Note("the users are those of %s: --users does not count", c.Log.Events)
	}
	protocol := "AMQP 0.9.1"
	if c.Streams > 0 {
		protocol = "the stream protocol"
		l.streamURI = rabbittest.StreamURI(s.Broker.StreamAddress(), "/")
		s.Env = append(s.Env, "RABBITMQ_STREAMS="+strconv.Itoa(c.Streams), "RABBITMQ_STREAM_URI="+l.streamURI)
	}
	r.Note("published by %s", protocol)
	if err := startWorkers(ctx, s, products, c.Workers, c.Env); err != nil {
		return err
	}
	l.event = ofBodies(bodies, true)
	if l.bySlot = c.Partitions > 0; l.bySlot && c.Log.Events == "" {
		l.event = withSingles(l.event)
	}
	var depths []int
	l.watch = func(ctx context.Context) error {
		n, err := rabbit.Waiting(ctx, s.DSN, c.Partitions)
		depths = append(depths, n)
		r.Point("queue", "ready", "events", float64(n))
		return err
	}
	before, err := deadLetters(ctx, s)
	if err != nil {
		return err
	}
	if err := l.run(ctx); err != nil {
		return err
	}
	dead := 0
	if err := l.await(ctx, awaitLimit, func(ctx context.Context) (int, error) {
		n, err := deadLetters(ctx, s)
		dead = n - before
		return dead, err
	}); err != nil {
		return err
	}
	r.Load(report.Load{
		PerMinute: float64(time.Minute) / float64(c.Rate.pause), Workers: c.Workers, Published: len(l.sent), Folded: len(l.sent) - l.missing, Dead: dead,
		ToProfile: l.latencies(0, 0), QueueDepth: depths,
	})
	if c.Streams > 0 {
		states, err := reader.Look(ctx, stream.Config{URI: l.streamURI, Name: "keyfold bench"}, rabbit.DefaultNames())
		if err != nil {
			return err
		}
		held := uint64(0)
		for _, state := range states {
			held += state.End - state.First
		}
		r.Add("in streams", "events", float64(held))
	}
	r.Add("users", "", float64(l.users))
	r.Add("writes", "", float64(l.writes))
	r.Add("events of a write", "", float64(len(l.sent))/float64(max(1, l.writes)))
	r.Latency("windows of one event", l.single)
	if l.missing > dead {
		return fmt.Errorf("%d events did not reach a profile within %v", l.missing-dead, awaitLimit)
	}
	return nil
}

// load is a scenario that publishes events and reads from the profiles when each
// was written.
type load struct {
	scenario
	*stack.Stack
	publisher publisher // while run or preload is under way
	bySlot    bool      // events are published to partitions
	streamURI string    // where events are published to streams; "": they are not
	mark      string    // tells this load's events from another's
	event     eventMaker
	// beside, where set, is called with each event's number and publishes what is
	// not measured.
	beside func(ctx context.Context, i int) error

	sent    map[profile.AppliedID]sentEvent
	reached map[series]report.Latencies // from being due to being in a profile
	single  report.Latencies            // of the events whose write holds no other
	missing int                         // in no profile
	folded  int                         // into all profiles, those of other loads too
	users   int
	writes  int64
}

// publisher publishes events: a [rabbit.Publisher], or [writer.Events].
type publisher interface {
	Publish(ctx context.Context, messages []rabbit.Message) []error
	Close(ctx context.Context) error
}

// eventMaker makes the body of an event with an id, and says of which kind it is.
type eventMaker func(i int, id string) (body []byte, kind int, err error)

// series are the events of one phase and one kind.
type series struct{ phase, kind int }

type sentEvent struct {
	due time.Time
	series
}

func newLoad(s *stack.Stack, r rate, mark string, phases ...phase) *load {
	l := &load{Stack: s, mark: mark, sent: map[profile.AppliedID]sentEvent{}}
	l.rate, l.phases, l.send = r, phases, l.publish
	return l
}

// sampleEvents makes the events of so many generated sessions, again from the first
// where more are needed. They happen now, or when their session was.
func sampleEvents(sessions, users int, now bool) eventMaker {
	return ofBodies(sampleBodies(sessions, users), now)
}

func sampleBodies(sessions, users int) [][]byte {
	g := sample.DefaultConfig(max(1, sessions))
	g.Users, g.Repeats = users, 0
	return sample.Events(g)
}

// ofBodies makes the events of such bodies, with ids of their own.
func ofBodies(bodies [][]byte, now bool) eventMaker {
	return func(i int, id string) ([]byte, int, error) {
		var m map[string]any
		if err := json.Unmarshal(bodies[i%len(bodies)], &m); err != nil {
			return nil, 0, err
		}
		m["message_id"] = id
		if now {
			m["occurred_at"] = time.Now().UTC().Format(timeFormat)
		}
		body, err := json.Marshal(m)
		return body, 0, err
	}
}

// withSingles gives every tenth event to a user who has no other: its window holds one.
func withSingles(event eventMaker) eventMaker {
	alone := int32(1_000_000)
	products := sample.Products()
	return func(i int, id string) ([]byte, int, error) {
		if i%10 != 0 {
			return event(i, id)
		}
		alone++
		return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_click","search_phrase":null,"product_id":%d,"occurred_at":%q,"metadata":{"device":"mobile"},"message_id":%q,"version":"1.0"}`,
			alone, products[i%len(products)].ID, time.Now().UTC().Format(timeFormat), id), 0, nil
	}
}

const timeFormat = "2006-01-02T15:04:05.000-07:00"

// next makes the message of an event that is due, and notes it as sent.
func (l *load) next(i int, due time.Time) (rabbit.Message, error) {
	body, kind, err := l.event(i, fmt.Sprintf("bench-%d-%s-%d", os.Getpid(), l.mark, i))
	if err != nil {
		return rabbit.Message{}, err
	}
	e, err := profile.ParseEvent(body, time.Now())
	if err != nil {
		return rabbit.Message{}, err
	}
	l.sent[e.Digest.ID()] = sentEvent{due, series{int(l.current.Load()), kind}}
	switch names := rabbit.DefaultNames(); {
	case l.streamURI != "":
		return names.StreamMessage(body, &e), nil
	case l.bySlot:
		return names.SlotMessage(body, &e), nil
	default:
		return names.EventMessage(body, &e), nil
	}
}

func (l *load) run(ctx context.Context) error {
	defer l.connect()()
	return l.scenario.run(ctx)
}

// connect opens the publisher until disconnect.
func (l *load) connect() (disconnect func()) {
	who, quiet := rabbit.ThisProcess("bench"), slog.New(slog.DiscardHandler)
	if l.streamURI != "" {
		client := stream.Config{URI: l.streamURI, Name: who.Connection("publisher")}
		l.publisher = writer.NewEvents(writer.New(writer.Config{Client: client, Names: rabbit.DefaultNames()}, quiet))
	} else {
		l.publisher = rabbit.NewPublisher(l.DSN, who, "publisher", rabbit.Timing{}, quiet)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.publisher.Close(ctx) // each confirm was awaited
	}
}

func (l *load) publish(ctx context.Context, i int, due time.Time) error {
	m, err := l.next(i, due)
	if err != nil {
		return err
	}
	sending, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	if err := l.publisher.Publish(sending, []rabbit.Message{m})[0]; err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if l.beside == nil {
		return nil
	}
	return l.beside(ctx, i)
}

// preload publishes n events at once.
func (l *load) preload(ctx context.Context, n int) error { return l.stream(ctx, n, 0) }

// stream publishes n events, those that are due together, with a pause between two of them
// on average; 0: at once.
func (l *load) stream(ctx context.Context, n int, pause time.Duration) error {
	defer l.connect()()
	began := time.Now()
	for i := 0; i < n; {
		due := min(n, i+1000)
		if pause > 0 {
			_ = stack.Wait(ctx, time.Until(began.Add(time.Duration(i+1)*pause))+streamTick)
			due = min(due, int(time.Since(began)/pause))
		}
		messages := make([]rabbit.Message, 0, max(0, due-i))
		for ; i < due; i++ {
			m, err := l.next(i, began.Add(time.Duration(i)*pause))
			if err != nil {
				return err
			}
			messages = append(messages, m)
		}
		if err := errors.Join(append(l.publisher.Publish(ctx, messages), ctx.Err())...); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

// streamTick is how long events gather that are published together.
const streamTick = 20 * time.Millisecond

const awaitLimit = time.Minute

// confirmLimit bounds the wait for a confirm: during an alarm a broker answers nothing.
const confirmLimit = time.Minute

func noDeadLetters(context.Context) (int, error) { return 0, nil }

// await waits until every event is in a profile or a dead letter, at most for limit,
// and reads from the profiles' ids when each was written.
func (l *load) await(ctx context.Context, limit time.Duration, deadLetters func(context.Context) (int, error)) error {
	store, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	deadline := time.Now().Add(limit)
	return stack.Poll(ctx, 500*time.Millisecond, func() (bool, error) {
		dead, err := deadLetters(ctx)
		if err == nil {
			err = l.read(ctx, store)
		}
		return l.missing == dead || time.Now().After(deadline), err
	})
}

func (l *load) read(ctx context.Context, store *mongodb.Store) error {
	l.reached = map[series]report.Latencies{}
	l.single = report.NewLatencies()
	l.missing, l.folded, l.users, l.writes = len(l.sent), 0, 0, 0
	for p, err := range store.AllProfiles(ctx) {
		if err != nil {
			return err
		}
		l.users++
		l.writes += int64(p.Version)
		l.folded += int(p.EventCount)
		if p.Applied.Floor != 0 {
			l.missing -= int(p.EventCount) - len(p.Applied.IDs) // folded so long ago that their ids are gone
		}
		for id, group := range p.Applied.All() {
			if e, ok := l.sent[id]; ok {
				l.missing--
				took := group.At.Time().Sub(e.due)
				l.latencies(e.phase, e.kind).Add(took)
				if group.Count == 1 {
					l.single.Add(took)
				}
			}
		}
	}
	return nil
}

// latencies returns those of a phase and a kind of events.
func (l *load) latencies(phase, kind int) report.Latencies {
	of := series{phase, kind}
	if l.reached[of].Histogram == nil {
		l.reached[of] = report.NewLatencies()
	}
	return l.reached[of]
}

// figures adds how long the events of a phase and a kind took to reach their profiles.
func (l *load) figures(r *report.Report, of string, phase, kind int) {
	h, add := l.latencies(phase, kind), r.Of(of)
	r.Latency(of, h)
	add("p50", "s", h.Seconds(50))
	add("p99", "s", h.Seconds(99))
}
