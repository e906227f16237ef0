package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// program is a `work` in a process of its own.
type program struct {
	*daemon
	command *exec.Cmd
	ended   chan error
}

// program starts a worker as a process; the test's end kills it.
func (s *stack) program(t *testing.T, args ...string) *program {
	t.Helper()
	p := s.command(t, args...)
	p.start()
	p.ready()
	return p
}

func (s *stack) command(t *testing.T, args ...string) *program {
	command, log := asProcess(append([]string{"work"}, s.flags(args...)...)...)
	return &program{daemon: &daemon{t: t, log: log}, command: command, ended: make(chan error, 1)}
}

func (p *program) start() {
	p.t.Helper()
	must.OK(p.t, p.command.Start())
	go func() { p.ended <- p.command.Wait() }()
	p.t.Cleanup(func() { _ = p.command.Process.Kill() }) // it has ended, as a rule
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	must.OK(p.t, p.command.Process.Signal(s))
}

// exit returns the exit code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return failed.ExitCode()
		}
		must.OK(p.t, err)
		return 0
	case <-time.After(patience):
		_ = p.command.Process.Kill()
		p.t.Fatalf("it has not ended after %v:\n%s", patience, p.log)
		return 0
	}
}

// holds waits until the worker holds n events.
func (d *daemon) holds(n int64) {
	d.t.Helper()
	eventually(d.t, "events are held", func() error {
		if held := d.metric("keyfold_held_events"); held != n {
			return fmt.Errorf("%d events are held, want %d\n%s", held, n, d.log)
		}
		return nil
	})
}

// impaired is a stack whose store and network can be taken away.
type impaired struct {
	*stack
	direct string // the broker, past the network
	store  *mongotest.Server
	proxy  *rabbittest.Proxy
}

// newImpaired sets one up, as newStack does.
func newImpaired(t *testing.T) *impaired {
	t.Helper()
	t.Parallel()
	broker := rabbittest.Shared(t)
	vhost, store, proxy := broker.VHost(t), mongotest.Start(t), rabbittest.NewProxy(t, broker.Address())
	s := &stack{dsn: broker.DSN(vhost), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	through := *s
	through.dsn = rabbittest.DSN(proxy.Address(), vhost)
	return &impaired{&through, s.dsn, store, proxy}
}

// repaired is the stack with everything there again.
func (i *impaired) repaired(t *testing.T) *stack {
	t.Helper()
	must.OK(t, i.store.AcceptConnections(), i.store.Resume())
	i.proxy.Thaw()
	s := *i.stack
	s.dsn = i.direct
	return &s
}

const (
	// limit is WORKER_SHUTDOWN_TIMEOUT in these tests.
	limit = 6 * time.Second
	// still keeps windows open until something closes them.
	still = "--batch-window=600"
	never = "--batch-max-delay=900"
)

// SIGTERM with open windows, whatever else is missing: the process has ended
// when its time is up, nothing is lost, and what was written is not folded again.
//
// Promise(shutdown/in-order): On SIGTERM or Ctrl-C windows are closed at once, written and
// acknowledged, connections closed in order; exit code 0.
// Promise(shutdown/in-time): With store or broker silent the process ends within
// WORKER_SHUTDOWN_TIMEOUT, with 1 if a write was under way; the broker has the rest.
// Figure: with a timeout of 6 s: 3 to 4 s
// Promise(rabbitmq/blocked-publish)
func TestShutdownEndsInTime(t *testing.T) {
	t.Parallel()
	refuse := func(t *testing.T, i *impaired) { must.OK(t, i.store.RefuseConnections(0), i.store.Disconnect()) }
	hang := func(t *testing.T, i *impaired) { must.OK(t, i.store.Pause(0)) }
	freeze := func(_ *testing.T, i *impaired) { i.proxy.Freeze() }
	for _, tc := range []struct {
		name   string
		impair []func(*testing.T, *impaired)
		code   int
		rare   bool // in the long form only
	}{
		{"all is well", nil, 0, false},
		{"store refuses", []func(*testing.T, *impaired){refuse}, 1, true},
		{"store hangs", []func(*testing.T, *impaired){hang}, 1, false},
		{"broker frozen", []func(*testing.T, *impaired){freeze}, 0, false},
		{"store refuses and broker frozen", []func(*testing.T, *impaired){refuse, freeze}, 1, false},
		{"store hangs and broker frozen", []func(*testing.T, *impaired){hang, freeze}, 1, true},
	} {
		if tc.rare && !long {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			i := newImpaired(t)
			p := i.program(t, still, never, fmt.Sprintf("--shutdown-timeout=%v", limit))
			bodies := sample.Events(sample.DefaultConfig(20))
			direct := *i.stack
			direct.dsn = i.direct
			direct.publish(t, bodies...)
			p.holds(int64(len(bodies)))
			for _, take := range tc.impair {
				take(t, i)
			}
			p.signal(syscall.SIGTERM)
			code := p.exit()
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			// In order, not cut off; and a wait is not busy.
			if lines := strings.Count(p.log.String(), "\n"); !strings.Contains(p.log.String(), `"worker stopped"`) || lines > 200 {
				t.Errorf("%d lines of log:\n%.20000s", lines, p.log)
			}
			s := i.repaired(t)
			d := s.work(t, quick).ready()
			s.settled(t, s.expect(t, bodies))
			d.stop()
			s.emptied(t)
		})
	}
}

// A store that hangs: past the deadline one line says which server gave no answer and what
// becomes of the events, and the exit code that not all went well. Stacks are for LOG_LEVEL=debug.
//
// Promise(shutdown/names-the-server): Past the deadline one line names the server that gives no
// answer; LOG_LEVEL=debug adds the goroutines that hang.
func TestShutdownNamesWhatHangs(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"info", "debug"} {
		t.Run(level, func(t *testing.T) {
			i := newImpaired(t)
			p := i.program(t, still, never, fmt.Sprintf("--shutdown-timeout=%v", limit), "--log-level="+level)
			bodies := sample.Events(sample.DefaultConfig(5))
			i.publish(t, bodies...)
			p.holds(int64(len(bodies)))
			must.OK(t, i.store.Pause(0))
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			told := 0
			for line := range strings.Lines(p.log.String()) {
				if strings.Contains(line, "MongoDB gives no answer") && strings.Contains(line, "none is lost: RabbitMQ delivers them again") {
					told++
				}
				if !json.Valid([]byte(line)) && !strings.HasPrefix(line, "keyfold: ") {
					t.Errorf("a raw line: %s", line)
				}
			}
			stacks := strings.Contains(p.log.String(), "keyfold/sink/mongodb.") && strings.Contains(p.log.String(), "goroutine(s)")
			if told != 1 || stacks != (level == "debug") {
				t.Errorf("%d lines name the store; stacks: %t\n%s", told, stacks, p.log)
			}
			i.repaired(t)
		})
	}
}

// A second signal, a second after the first or later, ends the process at once, whatever it waits for, with the exit
// code of a process that the signal ended; nothing is lost by it.
//
// Promise(shutdown/second-signal): A second signal, a second after the first or later, ends the
// process at once (exit code 143 or 130); nothing is lost by it.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			i := newImpaired(t)
			p := i.program(t, still, never, "--shutdown-timeout=600")
			bodies := sample.Events(sample.DefaultConfig(5))
			i.publish(t, bodies...)
			p.holds(int64(len(bodies)))
			must.OK(t, i.store.Pause(0))
			p.signal(signal)
			eventually(t, "it is stopping", func() error {
				if !strings.Contains(p.log.String(), "worker stopping: closing its windows") {
					return errors.New("not yet")
				}
				return nil
			})
			ended := make(chan struct{})
			var again sync.WaitGroup
			again.Go(func() {
				for open := true; open; { // those within a second of the first do not count
					_ = p.command.Process.Signal(signal)
					select {
					case <-ended:
						open = false
					case <-time.After(50 * time.Millisecond):
					}
				}
			})
			code := p.exit()
			close(ended)
			again.Wait()
			if code != 128+int(signal) {
				t.Errorf("exit code %d, want %d", code, 128+int(signal))
			}
			s := i.repaired(t)
			s.work(t, quick).ready()
			s.settled(t, s.expect(t, bodies))
		})
	}
}

// A log that nobody reads holds up whoever writes to it, and not the end of the
// process.
//
// Promise(shutdown/unread-log): A log without a reader does not keep the process from ending.
func TestShutdownWithALogNobodyReads(t *testing.T) {
	s := newStack(t)
	p := s.command(t, quick, fmt.Sprintf("--shutdown-timeout=%v", limit))
	log, end, err := os.Pipe()
	must.OK(t, err)
	defer log.Close()
	p.command.Stderr = end
	p.start()
	lines := bufio.NewReader(log)
	for !strings.Contains(p.log.String(), `"consumer started"`) {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err, p.log)
		}
		_, _ = io.WriteString(p.log, line)
	}
	fill(t, end)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// fill writes to a pipe until no more fits.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	defer pipe.Close()
	// Opened anew, as the process would share the mode of this file.
	own, err := syscall.Open(fmt.Sprintf("/proc/self/fd/%d", pipe.Fd()), syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	must.OK(t, err)
	defer syscall.Close(own)
	for err == nil || errors.Is(err, syscall.EINTR) {
		_, err = syscall.Write(own, []byte("\n"))
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
}

// SIGTERM while a backlog streams in: what was taken is written and acknowledged,
// what comes at that moment goes back, and nobody waits for it.
//
// Promise(shutdown/in-order)
func TestStopAmidABacklog(t *testing.T) {
	s := newStack(t)
	bodies := sample.Events(sample.DefaultConfig(600))
	s.publish(t, bodies...)
	for range 3 {
		d := s.work(t, quick, "--prefetch=64").ready()
		eventually(t, "the backlog is worked on", func() error {
			if d.metric(`keyfold_events_total{outcome="folded"}`) == 0 {
				return errors.New("nothing is folded")
			}
			return nil
		})
		if code := d.stop(); code != 0 {
			t.Fatalf("exit code %d\n%.20000s", code, d.log)
		}
	}
	if s.depth(t, rabbit.DefaultNames().Queue) == 0 {
		t.Error("the backlog was gone before the last stop: the test proves nothing")
	}
	s.work(t, quick)
	s.settled(t, s.expect(t, bodies))
}
