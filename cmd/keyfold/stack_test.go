package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/proof/oracle"

	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// asProgram makes the test binary be keyfold, so that a test can kill it.
const asProgram = "KEYFOLD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Unsetenv("OPENAI_API_KEY") // a key of who runs the tests is none of theirs
	process.Main(m)
}

// long has the tests that prove by how much and how often do all of it. Otherwise each has a
// short form.
var long = os.Getenv("KEYFOLD_SOAK") != ""

// dimensions are few, so that the race detector does not make days of it.
const dimensions = 64

// stack is a broker's virtual host and a store, set up, with the sample shop's
// products.
type stack struct {
	dsn      string
	mongo    string
	products []profile.Product
	history  profile.History
	short    time.Duration // half-life of the second vector
	env      []string      // of processes
}

// newStack sets one up. The test goes on beside others from here: it mostly waits, for
// windows, delays and processes.
func newStack(t *testing.T) *stack {
	t.Helper()
	s := unsetStack(t)
	s.setUp(t)
	return s
}

// unsetStack is newStack before its setup.
func unsetStack(t *testing.T) *stack {
	t.Helper()
	t.Parallel()
	broker := rabbittest.Shared(t)
	return &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
}

// setUp runs `setup` and imports the products, through the commands.
func (s *stack) setUp(t *testing.T, args ...string) {
	t.Helper()
	if code, _, errs := s.run(t, "", append([]string{"setup"}, args...)...); code != 0 {
		t.Fatalf("setup: %s", errs)
	}
	var lines strings.Builder
	encode := json.NewEncoder(&lines)
	for _, p := range s.products {
		must.OK(t, encode.Encode(map[string]any{"product_id": p.ID, "product_name": p.Name, "category": p.Category}))
	}
	if code, _, errs := s.run(t, lines.String(), "products", "import", "-", "--embed"); code != 0 {
		t.Fatalf("products import: %s", errs)
	}
}

// flags point a command at the stack.
func (s *stack) flags(args ...string) []string {
	return append([]string{
		"--rabbitmq-dsn", s.dsn, "--mongodb-uri", s.mongo, "--admin-addr", "127.0.0.1:0", "--embedder", "hash",
		"--history", string(s.history), fmt.Sprintf("--dimensions=%d", dimensions), "--short-half-life", s.short.String(),
	}, args...)
}

// run runs a command to its end.
func (s *stack) run(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	return keyfold(t.Context(), stdin, append(args, s.flags()...)...)
}

// keyfold runs a command in this process, until its end or ctx's. It and asProcess are all
// that tests of running services know of package main.
func keyfold(ctx context.Context, stdin string, args ...string) (code int, out, errs string) {
	var o, e logtest.Buffer
	code = run(ctx, args, cli.Streams{Stdin: strings.NewReader(stdin), Stdout: &o, Stderr: &e})
	return code, o.String(), e.String()
}

// asProcess returns a command as a process of its own, which a test can kill, and its log.
func asProcess(args ...string) (program *exec.Cmd, log *logtest.Buffer) {
	program, log = exec.Command(os.Args[0], args...), &logtest.Buffer{}
	program.Env, program.Stderr = append(os.Environ(), asProgram+"=1"), log
	return program, log
}

// ended is what a command left behind.
type ended struct {
	code      int
	out, errs string
}

// begin runs a command beside the test, until its end or ctx's.
func begin(ctx context.Context, stdin string, args ...string) <-chan ended {
	done := make(chan ended, 1)
	go func() {
		code, out, errs := keyfold(ctx, stdin, args...)
		done <- ended{code, out, errs}
	}()
	return done
}

// daemon is a `work` in this process.
type daemon struct {
	t    *testing.T
	log  *logtest.Buffer
	stop func() int // tells it to stop and returns its exit code
}

// work starts a worker and stops it at the test's end.
func (s *stack) work(t *testing.T, args ...string) *daemon {
	t.Helper()
	return startDaemon(t, append([]string{"work"}, s.flags(args...)...)...)
}

// startDaemon runs a command in this process until the test's end.
func startDaemon(t *testing.T, args ...string) *daemon {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{t: t, log: &logtest.Buffer{}}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, args, cli.Streams{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: d.log})
	}()
	d.stop = sync.OnceValue(func() int {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if code := d.stop(); code != 0 && !t.Failed() {
			t.Errorf("keyfold %s ended with %d:\n%s", strings.Join(args, " "), code, d.log)
		}
	})
	return d
}

var adminAddr = regexp.MustCompile(`"admin endpoint","addr":"([^"]+)"`)

// get asks the admin endpoint.
func (d *daemon) get(path string) (int, string) {
	d.t.Helper()
	return d.getAs("", path)
}

// getAs asks the admin endpoint under a name; "" is its address.
func (d *daemon) getAs(host, path string) (int, string) {
	d.t.Helper()
	found := adminAddr.FindStringSubmatch(d.log.String())
	if found == nil {
		return 0, ""
	}
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(http.MethodGet, "http://"+found[1]+path, nil)
	must.OK(d.t, err)
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// ready waits until the worker consumes.
func (d *daemon) ready() *daemon {
	d.t.Helper()
	eventually(d.t, "the worker is ready", func() error {
		if code, body := d.get("/readyz"); code != http.StatusOK {
			return fmt.Errorf("%d %s\n%s", code, body, d.log)
		}
		return nil
	})
	return d
}

// metric reads one number from /metrics.
func (d *daemon) metric(name string) (n int64) {
	d.t.Helper()
	_, body := d.get("/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			fmt.Sscan(rest, &n)
			return n
		}
	}
	return -1
}

// patience only bounds a hang, also of a machine that is busy elsewhere.
const patience = 5 * time.Minute

// eventually polls until what holds, generously: it says what is wrong and never
// how long something took. What takes long to look at is looked at less often.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		began := time.Now()
		if err = holds(); err == nil {
			return
		}
		time.Sleep(min(max(25*time.Millisecond, 4*time.Since(began)), time.Second))
	}
	t.Fatalf("not within %v: %s: %v", patience, what, err)
}

// publish sends bodies as the shop's publisher does. A body that is no event is
// sent under the routing key of a search.
func (s *stack) publish(t *testing.T, bodies ...[]byte) {
	t.Helper()
	s.publishAs(t, rabbit.DefaultNames().EventMessage, bodies...)
}

// publishAs publishes events as messages of a kind.
func (s *stack) publishAs(t *testing.T, message func([]byte, *profile.Event) rabbit.Message, bodies ...[]byte) {
	t.Helper()
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer p.Close(ctx)
	messages := make([]rabbit.Message, len(bodies))
	for i, body := range bodies {
		e, err := profile.ParseEvent(body, time.Now())
		if err != nil {
			e = profile.Event{Type: profile.Search, MessageID: fmt.Sprint("malformed ", i)}
		}
		messages[i] = message(body, &e)
	}
	for len(messages) > 0 {
		n := min(1000, len(messages))
		for i, err := range p.Publish(ctx, messages[:n]) {
			if err != nil {
				t.Fatalf("publish %s: %v", messages[i].Body, err)
			}
		}
		messages = messages[n:]
	}
}

// open reads the store past the daemon.
func (s *stack) open(t *testing.T) *mongodb.Store {
	t.Helper()
	c := mongodb.DefaultConfig()
	c.URI, c.Dimensions, c.History, c.Model = s.mongo, dimensions, s.history, vector.HashModel
	store, err := mongodb.Open(t.Context(), c)
	must.OK(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

// allProfiles reads all of the store.
func allProfiles(t *testing.T, store *mongodb.Store) map[int32]*profile.Profile {
	t.Helper()
	all := map[int32]*profile.Profile{}
	for p, err := range store.AllProfiles(t.Context()) {
		must.OK(t, err)
		all[p.UserID] = p
	}
	return all
}

// expect returns what one-at-a-time folding makes of the bodies.
func (s *stack) expect(t *testing.T, bodies [][]byte) *oracle.Oracle {
	t.Helper()
	c := profile.DefaultConfig()
	c.Dimensions, c.History, c.Model, c.ShortHalfLife = dimensions, s.history, vector.HashModel, s.short
	o, err := oracle.New(c, s.products)
	must.OK(t, err)
	for _, body := range bodies {
		must.OK(t, o.Add(body))
	}
	return o
}

// settled waits until the store holds what the oracle expects, and compares.
func (s *stack) settled(t *testing.T, o *oracle.Oracle) {
	t.Helper()
	store := s.open(t)
	eventually(t, "every event is folded", func() error {
		var events int64
		for _, p := range allProfiles(t, store) {
			events += p.EventCount
		}
		if events != int64(o.Folded) {
			return fmt.Errorf("%d events are in profiles, want %d", events, o.Folded)
		}
		return nil
	})
	if err := o.CheckAll(allProfiles(t, store)); err != nil {
		t.Error(err)
	}
}

// depth returns the messages that are ready in a queue, and takes none.
func (s *stack) depth(t *testing.T, queue string) int {
	t.Helper()
	n, err := rabbit.Depth(t.Context(), s.dsn, queue)
	must.OK(t, err)
	return n
}

// channel opens a channel of its own to the broker.
func (s *stack) channel(t *testing.T) (ch *amqp.Channel, hangUp func()) {
	t.Helper()
	conn, err := amqp.Dial(s.dsn)
	must.OK(t, err)
	if ch, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	return ch, func() { conn.Close() }
}

// unsubscribed waits until nobody consumes the queue: a worker's pause has come
// into force.
func (s *stack) unsubscribed(t *testing.T) {
	t.Helper()
	ch, hangUp := s.channel(t)
	defer hangUp()
	eventually(t, "nobody consumes", func() error {
		q, err := ch.QueueDeclarePassive(rabbit.DefaultNames().Queue, true, false, false, false, nil)
		if err == nil && q.Consumers != 0 {
			err = fmt.Errorf("%d consumers", q.Consumers)
		}
		return err
	})
}

// emptied checks, after the workers have stopped, that the queue holds nothing:
// all was acknowledged.
func (s *stack) emptied(t *testing.T) {
	t.Helper()
	if n := s.depth(t, rabbit.DefaultNames().Queue); n != 0 {
		t.Errorf("%d messages went back to the queue", n)
	}
}
