package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"keyfold/bench/testserver/process"
	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/vector"
)

// settings say what a run is.
type settings struct {
	Seed       uint64
	Duration   time.Duration
	Workers    int // at most at once
	Rate       int // events per second
	Mix        mix
	Scenario   string // one of scenarios instead of a plan; "" for none
	Directed   bool   // each failpoint once, one after the other, instead of a plan
	AllPoints  bool   // after the plan, go to the failpoints it has missed
	Race       bool
	Dimensions int
	MongoDB    string // somebody else's store; "" for a test server
	Data       string // folder of real logs; "" for none
	Dir        string // for logs and data
	Out        io.Writer
}

// soak is one run.
type soak struct {
	settings
	began   time.Time
	broker  *rabbittest.Broker
	store   *store
	relays  []relays // by slot
	fleet   *fleet
	feed    *feed
	ledger  *ledger
	program string
	traffic *traffic

	printing sync.Mutex
	counts   map[string]int // of what was done
	hits     string         // file with the failpoints that acted
	closers  []func()
}

// relays stand between one worker and its servers.
type relays struct{ broker, store *rabbittest.Proxy }

// say prints a line with the time since the start.
func (s *soak) say(format string, args ...any) {
	s.printing.Lock()
	defer s.printing.Unlock()
	fmt.Fprintf(s.Out, "%8.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// prepare builds the programs, starts the servers and sets them up.
func prepare(ctx context.Context, c settings) (s *soak, err error) {
	s = &soak{settings: c, began: time.Now(), counts: map[string]int{}, hits: filepath.Join(c.Dir, "failpoints.log")}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.startServers(ctx); err != nil {
		return s, err
	}
	if s.traffic, err = newTraffic(c.Seed, c.events(), c.Data, c.Scenario != ""); err != nil {
		return s, err
	}
	if s.ledger, err = newLedger(c.Dimensions, s.traffic.products); err != nil {
		return s, err
	}
	if err := s.setUp(ctx); err != nil {
		return s, err
	}
	s.feed = newFeed(s.broker.DSN("/"), s.traffic.messages, c.Rate, s.ledger)
	s.closers = append(s.closers, s.feed.close)
	s.fleet = newFleet(s.program, c.Dir, s.environment, s.say)
	s.closers = append(s.closers, s.fleet.close)
	s.say("set up: %d messages at hand, %d products, real logs %v", len(s.traffic.messages), len(s.traffic.products), s.traffic.logs)
	s.began = time.Now()
	return s, nil
}

func (s *soak) startServers(ctx context.Context) (err error) {
	if s.program, err = s.build(ctx, "keyfold/cmd/keyfold", "failpoints"); err != nil {
		return err
	}
	s.store = &store{direct: s.MongoDB}
	if s.MongoDB == "" {
		daemon, err := s.build(ctx, "keyfold/bench/testserver/mongodb/mongotestd", "")
		if err != nil {
			return err
		}
		if s.store, err = startStore(daemon, s.Dir); err != nil {
			return err
		}
		s.closers = append(s.closers, s.store.Stop)
	}
	dir := filepath.Join(s.Dir, "broker")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if s.broker, err = rabbittest.Launch(dir); err != nil {
		return err
	}
	s.closers = append(s.closers, s.broker.Stop)
	return s.startRelays()
}

func (s *soak) startRelays() (err error) {
	for range s.Workers {
		var r relays
		if r.broker, err = rabbittest.Relay(s.broker.Address()); err != nil {
			return err
		}
		s.closers = append(s.closers, r.broker.Close)
		if s.store.own() {
			if r.store, err = rabbittest.Relay(s.store.Address()); err != nil {
				return err
			}
			s.closers = append(s.closers, r.store.Close)
		}
		s.relays = append(s.relays, r)
	}
	return nil
}

// build builds one of the module's programs.
func (s *soak) build(ctx context.Context, pkg, tags string) (string, error) {
	path := filepath.Join(s.Dir, filepath.Base(pkg))
	args := []string{"build", "-tags", tags, "-o", path}
	if s.Race {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// database is a run's own, as a server of somebody else's holds others too.
func (s *soak) database() string {
	return "keyfold_soak_" + strconv.FormatUint(s.Seed, 10) + "_" + strconv.Itoa(os.Getpid())
}

// laws are the settings all commands of a run share. Delays are short, so that a
// fault every few seconds meets events in every state there is. A scenario has the
// default ones.
func (s *soak) laws() []string {
	laws := append(os.Environ(),
		"MONGODB_DATABASE="+s.database(), "EMBEDDER=hash", "ADMIN_ADDR=127.0.0.1:0",
		"EMBEDDING_DIMENSIONS="+strconv.Itoa(s.Dimensions), "KEYFOLD_FAILPOINT_LOG="+s.hits)
	if s.Scenario != "" {
		return laws
	}
	return append(laws, "EMBEDDING_BATCH_WINDOW=0.5", "EMBEDDING_BATCH_MAX_DELAY=1.5", "WORKER_RETRY_DELAY=200")
}

// environment is a worker's.
func (s *soak) environment(slot int) []string {
	r := s.relays[slot]
	mongo := s.store.direct
	if r.store != nil {
		mongo = uri(r.store.Address())
	}
	return append(s.laws(), "RABBITMQ_DSN="+rabbittest.DSN(r.broker.Address(), "/"), "MONGODB_URI="+mongo)
}

// keyfold runs a command to its end, past the relays.
func (s *soak) keyfold(ctx context.Context, in io.Reader, points string, args ...string) (*process.Process, string, error) {
	command := exec.Command(s.program, args...)
	command.Env = append(s.laws(), "RABBITMQ_DSN="+s.broker.DSN("/"), "MONGODB_URI="+s.store.direct, "KEYFOLD_FAILPOINTS="+points)
	var out strings.Builder
	command.Stdin, command.Stdout, command.Stderr = in, &out, &out
	c, err := process.Run(command)
	if err != nil {
		return nil, "", err
	}
	select {
	case <-c.Ended():
	case <-ctx.Done():
		c.Kill()
	}
	if c.Err() != nil {
		err = fmt.Errorf("keyfold %s: %w\n%s", strings.Join(args, " "), c.Err(), out.String())
	}
	return c, out.String(), err
}

// setUpLimit only bounds a failure: on a busy machine the import alone takes most
// of a minute.
const setUpLimit = 3 * time.Minute

func (s *soak) setUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpLimit)
	defer cancel()
	shop, err := s.traffic.shop()
	if err != nil {
		return err
	}
	_, _, first := s.keyfold(ctx, nil, "", "setup")
	_, _, second := s.keyfold(ctx, shop, "", "products", "import", "-", "--embed")
	return errors.Join(first, second)
}

// close ends everything, last started first.
func (s *soak) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// profiles reads the store.
func (s *soak) profiles(ctx context.Context) (map[int32]*engine.Profile, error) {
	c := mongodb.DefaultConfig()
	c.URI, c.Database, c.Dimensions, c.Model = s.store.direct, s.database(), s.Dimensions, vector.HashModel
	store, err := mongodb.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	all := map[int32]*engine.Profile{}
	for p, err := range store.AllProfiles(ctx) {
		if err != nil {
			return nil, err
		}
		all[p.UserID] = p
	}
	return all, nil
}

// letters returns the ids of the dead letters, copies included.
func (s *soak) letters(ctx context.Context) (ids []string, err error) {
	scan, err := deadletter.Open(ctx, s.broker.DSN("/"), rabbit.DefaultNames())
	if err != nil {
		return nil, err
	}
	for l, err := range scan.Letters(ctx) {
		if err != nil {
			return nil, errors.Join(err, scan.Close())
		}
		ids = append(ids, l.ID)
	}
	return ids, scan.Close()
}
