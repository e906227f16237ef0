package shutdown

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals returns a context that ends with the first SIGTERM or interrupt. The
// next one ends the process on the spot, with 128 + its number as the exit code
// (143 and 130), as a shell reports it: leaving that to the system's default
// would do nothing where the program is a container's first process. release
// gives the signals back.
func Signals() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		// Nothing is printed: standard error may be what hangs.
		os.Exit(exitCode(<-signals))
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// exitCode is what a shell says of a program that a signal ended.
func exitCode(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return 1
}
