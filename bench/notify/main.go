// Command notify proves the laws of notifications on this machine.
//
//	go run ./bench/notify histories --count 1000000   # random histories against the oracle
//	go run ./bench/notify histories --first 4711 --count 1 --trace   # one of them, decision by decision
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Histories historiesCmd `cmd:"" help:"Decide random histories twice, by the laws and by the oracle, and compare each decision and state."`
}

func main() {
	var c cli
	command := kong.Parse(&c, kong.Name("notify"), kong.Description("Proves the laws of notifications."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command.BindTo(ctx, (*context.Context)(nil))
	err := command.Run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "notify:", err)
		os.Exit(1)
	}
}
