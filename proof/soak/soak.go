package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"keyfold/internal/testserver/rabbittest"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
)

// settings say what a run is.
type settings struct {
	Seed     uint64        `help:"Of the plan and the events; 0: a new one, which is printed."`
	Duration time.Duration `default:"45m" help:"How long faults are brought. 45m is 220 kills; other durations have their share."`
	Workers  int           `default:"3" help:"Workers at most at once, 1 to 8; scaling goes down to one."`
	Rate     int           `default:"50" help:"Events a second."`
	Directed bool          `help:"Instead of a plan: each failpoint once."`
	Scenario string        `placeholder:"NAME" help:"Instead of a plan: one fault, half of the events one user's: ${scenarios}."`
	Kills    int           `default:"30" help:"Workers, or brokers, killed in the scenarios that kill."`
	Queues   string        `name:"queue-type" default:"" enum:",classic,quorum" help:"Of the workers' queue: classic or quorum; the program's default without."`
	Race     bool          `help:"Build the workers with the race detector."`
	Streams  int           `help:"Events by slot go to so many streams, on RabbitMQ 4, and half of all come by slot; positions are set back now and then. 0: there is the queue alone."`

	Dimensions int           `default:"256" help:"Components of vectors."`
	Short      time.Duration `name:"short-half-life" default:"1m" help:"Half-life of the profiles' second vector; 0: none."`

	MongoDB string `name:"mongodb-uri" env:"MONGODB_TEST_URI" placeholder:"URI" help:"A real store, in a database of the run's own; without the faults only the test server knows."`
	Data    string `env:"KEYFOLD_TEST_DATA" placeholder:"DIR" help:"Folder of real event logs."`

	Mix       mix       `kong:"-"`
	AllPoints bool      `kong:"-"` // after the plan, go to the failpoints it has missed
	Busy      float64   `kong:"-"` // share of the events that are one user's
	Plain     bool      `kong:"-"` // workers have the default delays
	Direct    bool      `kong:"-"` // workers reach the servers without relays
	Version   int       `kong:"-"` // of RabbitMQ, see [stack.Stack]
	Dir       string    `kong:"-"` // for logs and data
	Programs  string    `kong:"-"` // folder of what was built before; "": the run builds
	Out       io.Writer `kong:"-"`
}

// soak is one run.
type soak struct {
	settings
	*session
	store   *store
	relays  []relays // by slot
	fleet   *fleet
	feed    *feed
	ledger  *ledger
	traffic *traffic
}

// relays stand between one worker and its servers.
type relays struct{ broker, store *rabbittest.Proxy }

// prepare builds the programs, starts the servers and sets them up.
func prepare(ctx context.Context, c settings) (s *soak, err error) {
	s = &soak{settings: c, session: newSession(stack.New(c.Dir), c.Out)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.startServers(ctx); err != nil {
		return s, err
	}
	if s.traffic, err = newTraffic(c.Seed, c.events(), c.Data, c.Busy); err != nil {
		return s, err
	}
	if s.ledger, err = newLedger(c.Dimensions, c.Short, s.traffic.products); err != nil {
		return s, err
	}
	if err := s.setUp(ctx); err != nil {
		return s, err
	}
	if s.Streams > 0 {
		sendHalf(rand.New(rand.NewPCG(c.Seed, 0x736c6f74)), s.traffic.messages, rabbit.DefaultNames().StreamExchange())
	}
	s.feed = &feed{publisher: s.publisher("feed"), messages: s.traffic.messages, rate: c.Rate, ledger: s.ledger}
	s.fleet = newFleet(c.Dir, s.worker, s.say)
	s.fleet.always = basePoint
	s.AtEnd(s.fleet.close)
	s.say("set up: %d messages at hand, %d products, real logs %v", len(s.traffic.messages), len(s.traffic.products), s.traffic.logs)
	s.began = time.Now()
	return s, nil
}

// failpoints are the flags that build a keyfold with them.
var failpoints = []string{"-tags", "failpoints"}

func (s *soak) startServers(ctx context.Context) error {
	s.Stack.Programs, s.Build, s.RabbitMQ, s.Stack.Streams = s.Programs, failpoints, s.Version, s.Streams > 0
	if s.Race {
		s.Build = slices.Concat(failpoints, []string{"-race"})
	}
	s.StoreArgs = []string{"--data", filepath.Join(s.Stack.Dir, "journal")}
	s.Env = s.environment()
	p := &s.Profiles
	p.URI, p.Database, p.Dimensions, p.ShortHalfLife = s.MongoDB, s.database(), s.Dimensions, s.Short
	if err := s.Start(ctx); err != nil {
		return err
	}
	s.store = &store{s.Store}
	if s.Streams > 0 {
		s.Env = append(s.Env, "RABBITMQ_STREAMS="+strconv.Itoa(s.Streams), "RABBITMQ_STREAM_URI="+rabbittest.StreamURI(s.Broker.StreamAddress(), "/"))
	}
	if s.Direct {
		return nil
	}
	return s.startRelays()
}

func (s *soak) startRelays() (err error) {
	for range s.Workers {
		var r relays
		if r.broker, err = rabbittest.Relay(s.Broker.Address()); err != nil {
			return err
		}
		s.AtEnd(r.broker.Close)
		if s.store.own() {
			if r.store, err = rabbittest.Relay(s.store.Address()); err != nil {
				return err
			}
			s.AtEnd(r.store.Close)
		}
		s.relays = append(s.relays, r)
	}
	return nil
}

// database is the run's own, because a real server holds others too.
func (s *soak) database() string {
	return "keyfold_soak_" + strconv.FormatUint(s.Seed, 10) + "_" + strconv.Itoa(os.Getpid())
}

// environment is that of all commands. Delays are short, so that a fault every few
// seconds meets events in every state there is.
func (s *soak) environment() []string {
	all := []string{
		"MONGODB_DATABASE=" + s.database(), "EMBEDDING_DIMENSIONS=" + strconv.Itoa(s.Dimensions), "EMBEDDING_SHORT_HALF_LIFE=" + s.Short.String(), "KEYFOLD_FAILPOINT_LOG=" + s.hits,
	}
	if s.Queues != "" {
		all = append(all, "RABBITMQ_QUEUE_TYPE="+s.Queues)
	}
	if !s.Plain {
		all = append(all, "EMBEDDING_BATCH_WINDOW=0.5", "EMBEDDING_BATCH_MAX_DELAY=1.5", "WORKER_RETRY_DELAY=200")
	}
	return all
}

// worker is the command of a slot's worker, which reaches the servers by relays unless
// the run has none.
func (s *soak) worker(slot int, points string) *exec.Cmd {
	env := []string{"KEYFOLD_FAILPOINTS=" + points}
	if s.Direct {
		return s.Worker(env...)
	}
	r := s.relays[slot]
	env = append(env, "RABBITMQ_DSN="+rabbittest.DSN(r.broker.Address(), "/"))
	if r.store != nil {
		env = append(env, "MONGODB_URI="+uri(r.store.Address()))
	}
	return s.Worker(env...)
}

// setUpLimit only bounds a failure: on a busy machine the import alone takes most
// of a minute.
const setUpLimit = 3 * time.Minute

func (s *soak) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpLimit)
	defer cancel()
	return s.SetUp(ctx, s.traffic.products)
}
