package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/vector"
)

// loadCmd publishes at a rate to running workers and reports how long an event
// takes to reach its profile.
type loadCmd struct {
	Rate     string        `default:"1000/min" help:"Events per unit of time: 1000/min, 200/s."`
	Duration time.Duration `default:"60s" help:"How long to publish."`
	Workers  int           `default:"3" help:"keyfold work processes to start."`
	Users    int           `default:"400" help:"Users the events are spread over."`
	Env      []string      `help:"Settings of the workers, NAME=value."`

	Servers serverFlags `embed:""`
}

// pauseOf returns the pause between two events at a rate.
func pauseOf(rate string) (time.Duration, error) {
	number, unit, _ := strings.Cut(rate, "/")
	n, err := strconv.ParseFloat(number, 64)
	per, known := map[string]time.Duration{"": time.Second, "s": time.Second, "sec": time.Second, "min": time.Minute, "h": time.Hour}[unit]
	if err != nil || n <= 0 || !known {
		return 0, fmt.Errorf("--rate %q: it must be a number per unit, such as 1000/min or 200/s", rate)
	}
	return time.Duration(float64(per) / n), nil
}

// Run starts what is needed, publishes, waits until all is folded, and reports.
func (c *loadCmd) Run(ctx context.Context) (err error) {
	pause, err := pauseOf(c.Rate)
	if err != nil {
		return err
	}
	s, err := c.Servers.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	program, err := s.build(ctx, "keyfold/cmd/keyfold")
	if err != nil {
		return err
	}
	if err := prepare(ctx, s, program); err != nil {
		return err
	}
	stop, err := startWorkers(s, program, c.Workers, c.Env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	run := &loadRun{servers: s, sent: map[engine.AppliedID]time.Time{}}
	if err := run.publish(ctx, pause, c.Duration, c.Users); err != nil {
		return err
	}
	if err := run.await(ctx); err != nil {
		return err
	}
	return run.report(os.Stdout, c)
}

// prepare sets the servers up and imports the sample shop.
func prepare(ctx context.Context, s *servers, program string) error {
	if err := s.keyfold(ctx, program, nil, "setup"); err != nil {
		return err
	}
	return s.keyfold(ctx, program, shopLines(), "products", "import", "-", "--embed")
}

func shopLines() io.Reader {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	for _, p := range sample.Products() {
		_ = encode.Encode(map[string]any{"product_id": p.ID, "product_name": p.Name, "category": p.Category}) // into memory: it cannot fail
	}
	return &b
}

func startWorkers(s *servers, program string, n int, env []string) (stop func() error, err error) {
	var workers []*exec.Cmd
	for range n {
		w := exec.Command(program, "work")
		w.Env = s.environment(env...)
		w.Stderr = os.Stderr
		if err := w.Start(); err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	return func() error {
		var errs []error
		for _, w := range workers {
			errs = append(errs, w.Process.Signal(syscall.SIGTERM))
		}
		for _, w := range workers {
			errs = append(errs, w.Wait())
		}
		return errors.Join(errs...)
	}, nil
}

// loadRun is what was published and what became of it.
type loadRun struct {
	servers *servers
	mark    string // tells the events of one run from another's
	// beside, where set, is called with each event's number and publishes what is
	// not measured.
	beside  func(ctx context.Context, p *rabbit.Publisher, i int) error
	sent    map[engine.AppliedID]time.Time
	depths  []int
	latency *hdrhistogram.Histogram // milliseconds
	missing int
	users   int
	writes  int64
}

// publish sends one event after the other, each at its time, and looks at the
// queue once a second.
func (r *loadRun) publish(ctx context.Context, pause, duration time.Duration, users int) error {
	p := rabbit.NewPublisher(r.servers.dsn, rabbit.ThisProcess("bench"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	defer p.Close(ctx)
	names := rabbit.DefaultNames()
	total := int(duration / pause)
	g := sample.DefaultConfig(max(1, total/8))
	g.Users, g.Repeats = users, 0
	bodies := sample.Events(g)
	began := time.Now()
	nextLook := began
	for i := range total {
		at := began.Add(time.Duration(i) * pause)
		time.Sleep(time.Until(at))
		body, e, err := relabel(bodies[i%len(bodies)], fmt.Sprintf("bench-%d-%s%d", os.Getpid(), r.mark, i),
			time.Now().UTC().Format("2006-01-02T15:04:05.000-07:00"))
		if err != nil {
			return err
		}
		r.sent[e.Digest.ID()] = time.Now()
		if err := p.Publish(ctx, []rabbit.Message{names.EventMessage(body, &e)})[0]; err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		if r.beside != nil {
			if err := r.beside(ctx, p, i); err != nil {
				return err
			}
		}
		if time.Now().After(nextLook) {
			if err := r.look(ctx); err != nil {
				return err
			}
			nextLook = nextLook.Add(time.Second)
		}
	}
	return nil
}

// relabel gives an event of the sample another id and, if at is set, another
// time.
func relabel(body []byte, id, at string) ([]byte, engine.Event, error) {
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, engine.Event{}, err
	}
	m["message_id"] = id
	if at != "" {
		m["occurred_at"] = at
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, engine.Event{}, err
	}
	e, err := engine.ParseEvent(body, time.Now())
	return body, e, err
}

func (r *loadRun) look(ctx context.Context) error {
	n, err := rabbit.Depth(ctx, r.servers.dsn, rabbit.DefaultNames().Queue)
	r.depths = append(r.depths, n)
	return err
}

// await waits until every event is in a profile, or for a minute, and reads from
// the profiles' ids when each was written.
func (r *loadRun) await(ctx context.Context) error {
	c := mongodb.DefaultConfig()
	c.URI, c.Model = r.servers.mongo, vector.HashModel
	store, err := mongodb.Open(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		if err := r.read(ctx, store); err != nil {
			return err
		}
		if r.missing == 0 || time.Now().After(deadline) {
			return nil
		}
	}
}

func (r *loadRun) read(ctx context.Context, store *mongodb.Store) error {
	r.latency = hdrhistogram.New(1, 600_000, 3)
	r.missing, r.users, r.writes = len(r.sent), 0, 0
	for p, err := range store.AllProfiles(ctx) {
		if err != nil {
			return err
		}
		r.users++
		r.writes += int64(p.Version)
		if p.Applied.Floor != 0 {
			r.missing -= int(p.EventCount) - len(p.Applied.IDs) // folded so long ago that their ids are gone
		}
		for id, group := range p.Applied.All() {
			if sent, ok := r.sent[id]; ok {
				r.missing--
				if err := r.latency.RecordValue(max(1, group.At.Time().Sub(sent).Milliseconds())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *loadRun) report(w io.Writer, c *loadCmd) error {
	deepest, sum := 0, 0
	for _, d := range r.depths {
		deepest = max(deepest, d)
		sum += d
	}
	h := r.latency
	_, err := fmt.Fprintf(w, `published  %d events at %s for %v, %d workers
folded     %d of them (%.2f %%), %d users, %d writes (%.2f events each)
to profile p50 %.2f s, p95 %.2f s, p99 %.2f s, max %.2f s
queue      %d ready at most, %.1f on average, looked at once a second
`,
		len(r.sent), c.Rate, c.Duration, c.Workers,
		len(r.sent)-r.missing, 100*float64(len(r.sent)-r.missing)/float64(max(1, len(r.sent))), r.users, r.writes,
		float64(len(r.sent))/float64(max(1, r.writes)),
		seconds(h.ValueAtQuantile(50)), seconds(h.ValueAtQuantile(95)), seconds(h.ValueAtQuantile(99)), seconds(h.Max()),
		deepest, float64(sum)/float64(max(1, len(r.depths))))
	if r.missing > 0 {
		err = errors.Join(err, fmt.Errorf("%d events did not reach a profile within a minute", r.missing))
	}
	return err
}

func seconds(milliseconds int64) float64 { return float64(milliseconds) / 1000 }
