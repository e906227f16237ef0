package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"keyfold/cmd/embedding"
	"keyfold/cmd/pipeline"
	"keyfold/cmd/shutdown"
	"keyfold/engine"
	"keyfold/source/sample"
)

// worker returns a daemon that is joined and does not consume yet.
func (s *stack) worker(t *testing.T, args ...string) *worker {
	t.Helper()
	var c cli
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(append([]string{"work"}, s.flags(args...)...)); err != nil {
		t.Fatal(err)
	}
	config, err := c.Settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := c.Embedding.Config(config.Taste.Dimensions)
	if err != nil {
		t.Fatal(err)
	}
	config.Taste.Model = vectors.Model
	w := &worker{joined: make(chan struct{}), app: &app{
		ctx: t.Context(), clock: shutdown.NewClock(config.Timeout), streams: streams{strings.NewReader(""), io.Discard, io.Discard},
		servers: c.Servers, vectors: vectors, config: config, log: slog.New(slog.DiscardHandler),
	}}
	w.closeWindows = sync.OnceValue(w.drain)
	if w.embedding, err = embedding.New(vectors, config.Taste.Dimensions, 0, w.log); err != nil {
		t.Fatal(err)
	}
	if w.store, err = openStore(w.app); err != nil {
		t.Fatal(err)
	}
	must(t, w.join())
	return w
}

// panicking is a store that is a programming error.
type panicking struct{ engine.Profiles }

func (panicking) Now(context.Context) (engine.Millis, error) { return engine.Now(), nil }

func (panicking) Load(context.Context, []int32) ([]*engine.Profile, error) { panic("a test's") }

// A worker that cannot go on does not wait for verdicts that nobody will give.
func TestStopAfterAPanic(t *testing.T) {
	s := newStack(t)
	bodies := sample.Events(sample.DefaultConfig(50))
	s.publish(t, bodies...)
	w := s.worker(t, quick, "--shutdown-timeout=600")
	whole := w.pipeline
	ports, err := pipeline.Ports(w.config.Taste, panicking{}, w.store)
	if err != nil {
		t.Fatal(err)
	}
	windows := w.config.Shard
	windows.FlushKeys = 1
	if w.pipeline, err = pipeline.New(windows, w.config.Taste, ports); err != nil {
		t.Fatal(err)
	}
	must(t, whole.Router.Drain(t.Context()))
	if err := w.consume(); err == nil || !strings.Contains(err.Error(), "a test's") {
		t.Errorf("it ended with %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.shutDown() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("all is said to be well")
		}
	case <-time.After(slack):
		t.Fatalf("not stopped after %v", slack)
	}
	s.work(t, quick).ready()
	s.settled(t, s.expect(t, bodies))
}
