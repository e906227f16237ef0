package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"keyfold/engine/failpoint"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
)

// session is what the runs of all kinds have.
type session struct {
	*stack.Stack
	out    io.Writer
	began  time.Time
	counts mix    // of what was done
	hits   string // file with the failpoints that acted

	printing sync.Mutex
}

func newSession(s *stack.Stack, out io.Writer) *session {
	return &session{Stack: s, out: out, began: time.Now(), counts: mix{}, hits: filepath.Join(s.Dir, "failpoints.log")}
}

// say prints a line with the time since the start. Several goroutines may call it.
func (s *session) say(format string, args ...any) {
	s.printing.Lock()
	defer s.printing.Unlock()
	fmt.Fprintf(s.out, "%8.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// line prints a line of a report.
func (s *session) line(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// counted tells how often each of these came.
func counted[K ~string](counts map[K]int) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(all, ", ")
}

// publisher returns a connection that publishes until the end of the run.
func (s *session) publisher(name string) *rabbit.Publisher {
	p := rabbit.NewPublisher(s.DSN, rabbit.ThisProcess("soak"), name,
		rabbit.Timing{BackoffMin: 100 * time.Millisecond, BackoffMax: time.Second}, slog.New(slog.DiscardHandler))
	s.AtEnd(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = p.Close(ctx) // everything is confirmed
	})
	return p
}

// met returns what acted so far: "name action" each.
func (s *session) met() (map[string]bool, error) {
	text, err := os.ReadFile(s.hits)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	met := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		met[strings.TrimSpace(line)] = true
	}
	return met, nil
}

// missed returns those of the failpoints at which no process has died, nor met an error
// where orError is set. A phrase of every worker meets errors.
func (s *session) missed(names []string, orError bool) (missed []string, err error) {
	met, err := s.met()
	for _, name := range names {
		if !met[name+" exit"] && (!orError || name == failpoint.Phrase || !met[name+" error"]) {
			missed = append(missed, name)
		}
	}
	return missed, err
}

// death waits until a process has died at a failpoint.
func (s *session) death(ctx context.Context, w *worker) error {
	select {
	case <-w.Ended():
	case <-ctx.Done():
		return fmt.Errorf("not met within %v", visitLimit)
	}
	if !killed(w.Err()) {
		return fmt.Errorf("the process ended by itself: see %s", w.log)
	}
	s.counts[arm]++
	return nil
}

// crashBroker kills the broker, with all that it has confirmed on disk, and starts it after d.
func (s *session) crashBroker(d time.Duration) error {
	if err := s.Broker.Sync(); err != nil {
		return err
	}
	s.Broker.Kill()
	time.Sleep(d)
	return s.Broker.Boot()
}
