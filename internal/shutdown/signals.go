package shutdown

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// apart is how long after the first signal another one counts. A supervisor may
// signal a process and then its group, which the process sees as two signals.
const apart = time.Second

// Signals returns a context that ends with the first SIGTERM or interrupt. Another
// one, a second later or more, ends the process on the spot, with 128 + its number as
// the exit code (143 and 130), as a shell reports it: leaving that to the system's
// default would do nothing where the program is a container's first process. release
// gives the signals back.
func Signals() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	released := make(chan struct{})
	// Nothing is printed at the end: standard error may be what hangs.
	go watch(signals, released, cancel, func(s os.Signal) { os.Exit(exitCode(s)) })
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(released)
		cancel()
	})
}

// watch calls stop at the first signal and end at the next one that counts.
func watch(signals <-chan os.Signal, released <-chan struct{}, stop func(), end func(os.Signal)) {
	var first time.Time
	for {
		select {
		case s := <-signals:
			switch {
			case first.IsZero():
				first = time.Now()
				stop()
			case time.Since(first) >= apart:
				end(s)
				return
			}
		case <-released:
			return
		}
	}
}

// exitCode is what a shell says of a program that a signal ended.
func exitCode(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return 1
}
