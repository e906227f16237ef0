// Command mongotestd runs the test server of package mongotest in a process of
// its own. It prints its connection string on standard output and runs until it
// is interrupted or killed; with --data it goes on where it was.
//
//	go run ./internal/testserver/mongotest/mongotestd --addr 127.0.0.1:27018 --data /tmp/mongo.journal
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"keyfold/internal/testserver/mongotest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mongotestd:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mongotestd", flag.ExitOnError)
	address := flags.String("addr", "127.0.0.1:0", "host:port to listen on; port 0 chooses a free one")
	host := flags.String("host", "", "host:port that clients of the replica set come to; without it that of --addr")
	primary := flags.String("primary", "", "serve nothing, and fail unless the server at this host:port is a writable primary")
	data := flags.String("data", "", "file that keeps every write; without it nothing outlives the process")
	user := flags.String("user", "", "require authentication as this user")
	password := flags.String("password", "", "the user's password")
	_ = flags.Parse(args) // exits by itself
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see --help", flags.Arg(0))
	}
	if *primary != "" {
		return isPrimary(ctx, *primary)
	}
	options := []mongotest.Option{mongotest.WithAddress(*address), mongotest.WithHost(*host), mongotest.WithData(*data)}
	if *user != "" {
		options = append(options, mongotest.WithUser(*user, *password))
	}
	s, err := mongotest.Listen(options...)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, s.URI()); err != nil {
		_ = s.Close()
		return err
	}
	<-ctx.Done()
	return s.Close()
}

// isPrimary fails unless the server at an address is a writable primary.
func isPrimary(ctx context.Context, address string) error {
	yes, err := mongotest.Primary(ctx, address)
	if err == nil && !yes {
		err = fmt.Errorf("%s is no writable primary", address)
	}
	return err
}
