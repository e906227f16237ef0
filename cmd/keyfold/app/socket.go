package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"keyfold/internal/shutdown"
	"keyfold/source/httpapi"
)

// Socket is the open port of an API. Requests wait at it until [Socket.Serve] answers them.
type Socket struct {
	app      *App
	name     string
	server   *httpapi.Server
	listener net.Listener
}

// Listen opens the port of an API and logs its URL, which ends with path. It comes before
// [App.WithAdmin], since who reads that a program is ready sends requests at once. The error
// names setting, which gave addr.
func (a *App) Listen(name string, server *httpapi.Server, setting, addr, path string) (*Socket, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (another address, or port 0 for any free one)", setting, err)
	}
	a.Log.Info(name+" listening", slog.String("url", server.Scheme()+"://"+listener.Addr().String()+path))
	return &Socket{a, name, server, listener}, nil
}

// Serve answers requests until the program is to stop, and what is under way before it
// returns.
func (s *Socket) Serve() error {
	err := shutdown.Serve(s.app.Ctx, s.server, s.listener, func() (context.Context, context.CancelFunc) {
		return s.app.Clock.Context(s.app.Ctx, shutdown.CloseReserve)
	})
	s.app.Log.Info(s.name + " stopped")
	return err
}

// Close closes the port of a program that ends before it serves. After Serve it does nothing.
func (s *Socket) Close() { _ = s.listener.Close() }
