// Package stack runs keyfold between a broker and a store, or, for notifications, between
// a broker and PostgreSQL: the servers that bench and proof/soak measure, and the
// program's commands.
package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/vector"
)

// Stack is a broker, a store and the program between them. The fields above the
// blank line are set before Start.
type Stack struct {
	Dir        string         // for data and logs
	Programs   string         // folder of what Build has built before; "": Start builds
	DSN        string         // of the broker; "": Start runs one
	RabbitMQ   int            // its major version, 3 or 4; 0: the one the machine has
	Streams    bool           // it speaks the stream protocol; its version is 4 then
	Profiles   mongodb.Config // of the profiles' store; without a URI, Start runs one
	StoreArgs  []string       // of the store that Start runs
	Decisions  bool           // notifications are decided: PostgreSQL takes the place of the profiles' store
	Ledger     string         // the address of its database; "": Start runs a server
	LedgerArgs []string       // settings of the server that Start runs
	Build      []string       // flags of go build
	Env        []string       // of every command, beside the addresses

	Broker  *rabbittest.Broker // nil for one that was there before
	Store   *mongotest.Process // nil for one that was there before
	SQL     *pgtest.Server     // PostgreSQL; nil for one that was there before
	Used    []time.Duration    // processor time of the commands that Launch ran, in the order of their ends
	running *running           // shared with the stacks that are Apart
	program string
	closers []func() error
}

// New returns a stack of private servers, whose profiles have vectors of the offline
// embedder.
func New(dir string) *Stack {
	s := &Stack{Dir: dir, running: newRunning(), Profiles: mongodb.DefaultConfig()}
	s.Profiles.URI, s.Profiles.Model = "", vector.HashModel
	return s
}

// ForNotifications returns a stack of private servers for `keyfold notify`.
func ForNotifications(dir string) *Stack {
	return &Stack{Dir: dir, running: newRunning(), Decisions: true}
}

// running are the processes of the commands that Launch runs. Its lock also guards Used,
// while commands end side by side.
type running struct {
	sync.Mutex
	pids map[string]int
}

func newRunning() *running { return &running{pids: map[string]int{}} }

// add names a process by its command, with a number behind it where there are several.
func (r *running) add(args []string, pid int) (remove func()) {
	r.Lock()
	defer r.Unlock()
	command, _, _ := strings.Cut(strings.Join(args, " "), " --")
	name := command
	for n := 2; r.pids[name] != 0; n++ {
		name = fmt.Sprint(command, " ", n)
	}
	r.pids[name] = pid
	return func() { delete(r.pids, name) }
}

// Processes returns the servers that Start ran and the commands that Launch runs, by name.
func (s *Stack) Processes() map[string]int {
	s.running.Lock()
	defer s.running.Unlock()
	pids := maps.Clone(s.running.pids)
	if s.Broker != nil {
		pids["broker"] = s.Broker.PID()
	}
	if s.Store != nil {
		pids["store"] = s.Store.PID()
	}
	if s.SQL != nil {
		pids["PostgreSQL"] = s.SQL.PID()
	}
	return pids
}

// Start builds keyfold, unless it is there, and runs the servers that are missing. The
// caller calls Close, whatever Start returns.
func (s *Stack) Start(ctx context.Context) (err error) {
	if s.Programs == "" {
		if err := Build(ctx, s.Dir, s.Build...); err != nil {
			return err
		}
		s.Programs = s.Dir
	}
	s.program = filepath.Join(s.Programs, "keyfold")
	switch {
	case s.Decisions && s.Ledger == "":
		err = s.startLedger()
	case !s.Decisions && s.Profiles.URI == "":
		err = s.startStore()
	}
	if err != nil || s.DSN != "" {
		return err
	}
	dir := filepath.Join(s.Dir, "broker")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	switch {
	case s.Streams:
		s.Broker, err = rabbittest.LaunchStreams(dir, 4)
	case s.RabbitMQ == 0:
		s.Broker, err = rabbittest.Launch(dir)
	default:
		s.Broker, err = rabbittest.LaunchVersion(dir, s.RabbitMQ)
	}
	if err != nil {
		return err
	}
	s.AtEnd(s.Broker.Stop)
	s.DSN = s.Broker.DSN("/")
	return nil
}

// Apart returns a stack on the same servers, with a virtual host of the broker and a
// database of the store of its own. Its Close removes the virtual host.
func (s *Stack) Apart(name string) (*Stack, error) {
	if err := s.Broker.AddVHost(name); err != nil {
		return nil, err
	}
	apart := *s
	apart.DSN, apart.Profiles.Database = s.Broker.DSN(name), name
	apart.Used, apart.closers = nil, []func() error{func() error { return s.Broker.RemoveVHost(name) }}
	return &apart, nil
}

func (s *Stack) startStore() (err error) {
	if s.Store, err = mongotest.Launch(filepath.Join(s.Programs, "mongotestd"), filepath.Join(s.Dir, "store"), s.StoreArgs...); err != nil {
		return err
	}
	s.AtEnd(s.Store.Stop)
	s.Profiles.URI = s.Store.URI()
	return nil
}

func (s *Stack) startLedger() (err error) {
	if s.SQL, err = pgtest.Launch(filepath.Join(s.Dir, "ledger"), s.LedgerArgs...); err != nil {
		return err
	}
	s.AtEnd(s.SQL.Stop)
	s.Ledger = s.SQL.URL("postgres")
	return nil
}

// Build builds keyfold, with flags, and the store's server into a folder.
func Build(ctx context.Context, dir string, flags ...string) error {
	_, err := process.Build(ctx, dir, "keyfold/cmd/keyfold", flags...)
	if err == nil {
		_, err = process.Build(ctx, dir, "keyfold/internal/testserver/mongotest/mongotestd")
	}
	return err
}

// AtEnd has Close call a function.
func (s *Stack) AtEnd(f func()) {
	s.closers = append(s.closers, func() error { f(); return nil })
}

// Close ends everything, last started first. It may be called again.
func (s *Stack) Close() error {
	var errs []error
	for _, end := range slices.Backward(s.closers) {
		errs = append(errs, end())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Environment is that of a command; more overrides it.
func (s *Stack) Environment(more ...string) []string {
	store := []string{"MONGODB_URI=" + s.Profiles.URI, "MONGODB_DATABASE=" + s.Profiles.Database, "EMBEDDER=hash"}
	if s.Decisions {
		store = []string{"NOTIFY_DATABASE_URL=" + s.Ledger}
	}
	return slices.Concat(os.Environ(), []string{"RABBITMQ_DSN=" + s.DSN, "ADMIN_ADDR=127.0.0.1:0"}, store, s.Env, more)
}

// Worker is the command of a worker.
func (s *Stack) Worker(env ...string) *exec.Cmd { return s.Command(env, "work") }

// Command is a command of keyfold.
func (s *Stack) Command(env []string, args ...string) *exec.Cmd {
	c := exec.Command(s.program, args...)
	c.Env = s.Environment(env...)
	return c
}

// Run runs a command of keyfold to its end and returns its output. The error holds
// it too, and an [exec.ExitError] where the command failed.
func (s *Stack) Run(ctx context.Context, stdin io.Reader, env []string, args ...string) (string, error) {
	c, out := s.Command(env, args...), &bytes.Buffer{}
	c.Stdin, c.Stdout, c.Stderr = stdin, out, out
	p, err := process.Run(c)
	if err != nil {
		return "", err
	}
	select {
	case <-p.Ended():
	case <-ctx.Done():
		p.Kill()
	}
	if err = p.Err(); err != nil {
		err = fmt.Errorf("keyfold %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return out.String(), err
}

// SetUp sets the servers up and imports products.
func (s *Stack) SetUp(ctx context.Context, products []profile.Product) error {
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	for _, p := range products {
		_ = encode.Encode(map[string]any{"product_id": p.ID, "product_name": p.Name, "category": p.Category}) // into memory: it cannot fail
	}
	_, err := s.Run(ctx, nil, nil, "setup")
	if err == nil {
		_, err = s.Run(ctx, &lines, nil, "products", "import", "-", "--embed")
	}
	return err
}

// Launch runs a command until stop or Close ends it in order. stop may be called
// again.
func (s *Stack) Launch(env []string, args ...string) (stop func() error, err error) {
	c := s.Command(env, args...)
	c.Stderr = os.Stderr
	p, err := process.Run(c)
	if err != nil {
		return nil, err
	}
	remove := s.running.add(args, c.Process.Pid)
	stop = sync.OnceValue(func() error {
		err := p.Signal(syscall.SIGTERM)
		<-p.Ended()
		s.running.Lock()
		defer s.running.Unlock()
		remove()
		s.Used = append(s.Used, c.ProcessState.UserTime()+c.ProcessState.SystemTime())
		return errors.Join(err, p.Err())
	})
	s.closers = append(s.closers, stop)
	return stop, nil
}

// Address returns one that is kept free for a command.
func (s *Stack) Address() (string, error) {
	ports, err := process.ClaimPorts()
	if err != nil {
		return "", err
	}
	s.AtEnd(ports.Release)
	return ports.Address(0), nil
}

// Open opens the store as a worker does.
func (s *Stack) Open(ctx context.Context) (*mongodb.Store, error) {
	return mongodb.Open(ctx, s.Profiles)
}

// ReadProfiles returns all profiles, by their users.
func (s *Stack) ReadProfiles(ctx context.Context) (map[int32]*profile.Profile, error) {
	store, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	all := map[int32]*profile.Profile{}
	for p, err := range store.AllProfiles(ctx) {
		if err != nil {
			return nil, err
		}
		all[p.UserID] = p
	}
	return all, nil
}

// DeadLetters returns all dead letters, and takes none.
func (s *Stack) DeadLetters(ctx context.Context) (all []*deadletter.Letter, err error) {
	scan, err := deadletter.Open(ctx, s.DSN, rabbit.DefaultNames())
	if err != nil {
		return nil, err
	}
	for l, err := range scan.Letters(ctx) {
		if err != nil {
			return nil, errors.Join(err, scan.Close())
		}
		all = append(all, l)
	}
	return all, scan.Close()
}

// Wait waits, less where ctx ends.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Poll asks again and again, with a pause between, until the answer is yes or an
// error. It asks a last time when ctx has ended.
func Poll(ctx context.Context, pause time.Duration, ask func() (bool, error)) error {
	for {
		ended := ctx.Err()
		if yes, err := ask(); yes || err != nil {
			return err
		}
		if ended != nil {
			return ended
		}
		_ = Wait(ctx, pause) // ask tells of the end
	}
}
