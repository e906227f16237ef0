package shutdown

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"keyfold/internal/testserver/must"
)

const asProgram = "KEYFOLD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		program()
	}
	goleak.VerifyTestMain(m)
}

// program notices the first signal and does not stop.
func program() {
	ctx, _ := Signals()
	os.Stdout.WriteString("running\n")
	<-ctx.Done()
	os.Stdout.WriteString("asked to stop\n")
	time.Sleep(time.Hour)
}

// Promise(shutdown/second-signal)
func TestSecondSignalEndsAtOnce(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, os.Interrupt.(syscall.Signal): 130} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := exec.Command(os.Args[0])
			p.Env = append(os.Environ(), asProgram+"=1")
			out, err := p.StdoutPipe()
			must.OK(t, err)
			must.OK(t, p.Start())
			for _, want := range []string{"running\n", "asked to stop\n"} {
				line := make([]byte, len(want))
				if _, err := io.ReadFull(out, line); err != nil || string(line) != want {
					t.Fatalf("read %q, %v; want %q", line, err, want)
				}
				must.OK(t, p.Process.Signal(signal))
			}
			ended := make(chan error, 1)
			go func() { ended <- p.Wait() }()
			for {
				select {
				case err = <-ended:
				case <-time.After(20 * time.Millisecond):
					_ = p.Process.Signal(signal) // one that comes within the second does not count
					continue
				}
				break
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != code {
				t.Errorf("%v twice: %v, want exit code %d", signal, err, code)
			}
		})
	}
}

// A signal within a second of the first one is the same wish to stop.
//
// Promise(shutdown/second-signal)
func TestSignalsWithinASecondAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, released := make(chan os.Signal), make(chan struct{})
		stops := 0
		var ended os.Signal
		go watch(signals, released, func() { stops++ }, func(s os.Signal) { ended = s })
		time.Sleep(time.Minute)
		signals <- syscall.SIGTERM
		signals <- syscall.SIGTERM
		time.Sleep(apart - time.Nanosecond)
		for range 10 { // none of them is left waiting
			signals <- os.Interrupt
		}
		synctest.Wait()
		if stops != 1 || ended != nil {
			t.Errorf("asked to stop %d times, ended by %v within the second", stops, ended)
		}
		time.Sleep(time.Nanosecond)
		signals <- os.Interrupt
		synctest.Wait()
		if stops != 1 || ended != os.Interrupt {
			t.Errorf("asked to stop %d times, ended by %v after the second", stops, ended)
		}
	})
}

func TestReleasedSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		close(released)
		watch(nil, released, func() { t.Error("asked to stop") }, nil)
	})
}

func TestRunReturnsWhatWorkReturns(t *testing.T) {
	want := errors.New("its own")
	if err := NewClock(time.Hour).Run(t.Context(), slog.New(slog.DiscardHandler), func() error { return want }); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
}

// The limit counts from the signal, or from the moment a program that fails by
// itself begins to stop; not a moment less, none more.
//
// Promise(shutdown/names-the-server)
func TestRunLeavesWhatHangs(t *testing.T) {
	for _, bySignal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, signal := context.WithCancel(t.Context())
			defer signal()
			release := make(chan struct{})
			c := NewClock(10 * time.Second)
			began := time.Now()
			time.AfterFunc(time.Minute, func() {
				if bySignal {
					signal()
				} else {
					c.Start()
				}
			})
			var out strings.Builder
			err := c.Run(ctx, debugTo(&out), func() error { hang(release); return nil })
			if overdue, ok := errors.AsType[*OverdueError](err); !ok || overdue.Limit != 10*time.Second {
				t.Errorf("by signal %v: %v", bySignal, err)
			}
			if took := time.Since(began); took != 70*time.Second {
				t.Errorf("by signal %v: gave up after %v, want 70s", bySignal, took)
			}
			if !strings.Contains(out.String(), "keyfold/internal/shutdown.hang") {
				t.Errorf("what hung is not shown:\n%s", out.String())
			}
			close(release)
		})
	}
}

func TestRunWaitsForWorkThatStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, signal := context.WithCancel(t.Context())
		signal()
		var out strings.Builder
		err := NewClock(10*time.Second).Run(ctx, debugTo(&out), func() error { time.Sleep(9 * time.Second); return nil })
		if err != nil || out.Len() > 0 {
			t.Errorf("%v, and printed %q", err, out.String())
		}
	})
}

func TestContextKeepsTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ limit, reserve, want time.Duration }{
			{10 * time.Second, 4 * time.Second, 6 * time.Second},
			{3 * time.Second, 4 * time.Second, 1500 * time.Millisecond}, // never more than half
		} {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			c := NewClock(tc.limit)
			c.Start()
			time.Sleep(time.Second)
			ctx, release := c.Context(over, tc.reserve)
			deadline, _ := ctx.Deadline()
			if left := time.Until(deadline) + time.Second; left != tc.want || ctx.Err() != nil {
				t.Errorf("%v with %v kept: %v, %v", tc.limit, tc.reserve, left, ctx.Err())
			}
			release()
		}
	})
}

// Goroutines that do the same are one line with their number; those that no
// code of keyfold is in are left out.
//
// Promise(shutdown/names-the-server)
func TestGoroutines(t *testing.T) {
	release, foreign := make(chan struct{}), make(chan struct{})
	for range 3 {
		go hang(release)
	}
	go func() { _ = exec.Command("true").Run(); close(foreign) }()
	<-foreign
	var text string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if text = Goroutines(); strings.Contains(text, "3 goroutine(s)\n    keyfold/internal/shutdown.hang shutdown_test.go:") {
			break
		}
	}
	close(release)
	if !strings.Contains(text, "3 goroutine(s)\n    keyfold/internal/shutdown.hang shutdown_test.go:") {
		t.Errorf("got\n%s", text)
	}
	for _, no := range []string{"os/signal", "shutdown.Goroutines", "0x"} {
		if strings.Contains(text, no) {
			t.Errorf("%q is in\n%s", no, text)
		}
	}
}

func debugTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Only goroutines with events in hand tell which server gives no answer.
//
// Promise(shutdown/names-the-server)
func TestUnanswered(t *testing.T) {
	servers := []Peer{{"MongoDB", "keyfold/sink/mongodb"}, {"RabbitMQ", "keyfold/source/rabbit"}}
	const flush = "2 goroutine(s)\n    keyfold/sink/mongodb.(*Store).Swap swap.go:1\n    keyfold/shard.(*actor).run actor.go:1\n"
	const reader = "1 goroutine(s)\n    keyfold/source/rabbit.(*link).read link.go:1\n"
	for goroutines, want := range map[string]string{flush + reader: "MongoDB", reader: "a server", "": "a server"} {
		if got := Unanswered(goroutines, servers); got != want {
			t.Errorf("%s: %q, want %q", goroutines, got, want)
		}
	}
}

func hang(release chan struct{}) { <-release }

func TestDescribe(t *testing.T) {
	profile := "goroutine profile: total 6\n" +
		"2 @ 0x1 0x2 0x3\n" +
		"#\t0x1\tinternal/poll.(*FD).Read+0x279\t/usr/lib/go/src/internal/poll/fd_unix.go:165\n" +
		"#\t0x2\tmain.(*worker).drain+0x1\t\t/src/cmd/keyfold/shutdown.go:60\n" +
		"\n1 @ 0x4 0x5\n# labels: {\"a\":\"b\"}\n" +
		"#\t0x4\tkeyfold/shard.(*Router[...]).start+0x10\t/src/shard/router.go:80\n" +
		"\n3 @ 0x6\n#\t0x6\tother.wait+0x10\t/src/other/wait.go:8\n\n"
	want := "2 goroutine(s)\n    internal/poll.(*FD).Read fd_unix.go:165\n    main.(*worker).drain shutdown.go:60\n" +
		"1 goroutine(s)\n    keyfold/shard.(*Router[...]).start router.go:80\n"
	if got := describe(profile); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
