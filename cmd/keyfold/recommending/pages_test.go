package recommending

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/testserver/must"
)

// A page that waits for a server that does not answer keeps no other page waiting: each waits as
// long as its own bound allows, and for what it needs alone.
func TestOnePageKeepsNoOtherWaiting(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	met := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			met <- c // it is never answered
		}
	}()
	p, err := NewPages(&app.App{
		Ctx: t.Context(), Log: slog.New(slog.DiscardHandler),
		Notify: app.Notify{Ledger: "postgres://keyfold@" + listener.Addr().String() + "/keyfold?sslmode=disable&connect_timeout=300"},
	})
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	first, others := make(chan error, 1), make(chan error, 2)
	go func() { _, err := p.Ledger(ctx); first <- err }()
	asked := <-met
	over, end := context.WithCancel(t.Context())
	end()
	go func() { _, err := p.Ledger(over); others <- err }()
	go func() {
		_, err := p.history()
		others <- errors.Join(err, context.Canceled)
	}()
	for range 2 {
		select {
		case err := <-others:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case err := <-first:
			t.Fatalf("the first page did not wait: %v", err)
		case <-time.After(20 * time.Second):
			t.Fatal("a page waits for what another one asked for")
		}
	}
	cancel()
	_ = asked.Close()
	<-first
	_ = listener.Close()
}
