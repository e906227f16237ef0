package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/worker"

	"keyfold/cmd/keyfold/app"

	"keyfold/engine"
	"keyfold/source/sample"
)

// app returns what a `work` with these arguments works with.
func (s *stack) app(t *testing.T, args ...string) *app.App {
	t.Helper()
	var c commands
	at := cli.Streams{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	parser, err := commandLine.Parser(&c, nil, at, func(int) {})
	must.OK(t, err)
	if _, err := parser.Parse(append([]string{"work"}, s.flags(args...)...)); err != nil {
		t.Fatal(err)
	}
	a, err := c.app(t.Context(), at)
	must.OK(t, err)
	a.Log = slog.New(slog.DiscardHandler)
	return a
}

// panicking is a store that is a programming error.
type panicking struct{ worker.Store }

func (panicking) Now(context.Context) (engine.Millis, error) { return engine.Now(), nil }

func (panicking) Load(context.Context, []int32) ([]*profile.Profile, error) { panic("a test's") }

// A worker that cannot go on does not wait for verdicts that will never come.
func TestStopAfterAPanic(t *testing.T) {
	s := newStack(t)
	bodies := sample.Events(sample.DefaultConfig(50))
	s.publish(t, bodies...)
	a := s.app(t, quick, "--shutdown-timeout=600")
	e, err := embedding.New(a.Vectors, 0, a.Log)
	must.OK(t, err)
	ports := workerPorts(a, e, nil)
	ports.OpenStore = func(ctx context.Context) (worker.Store, error) {
		store, err := a.OpenChecked(ctx)
		return panicking{store}, err
	}
	a.Config.Shard.FlushKeys = 1
	ended := make(chan error, 1)
	go func() { ended <- worker.New(workerConfig(a), ports).Run(t.Context()) }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "a test's") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("not stopped after a minute")
	}
	s.work(t, quick).ready()
	s.settled(t, s.expect(t, bodies))
}
