package shutdown

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// Server answers HTTP requests; [http.Server] is one.
type Server interface {
	Serve(listener net.Listener) error
	Shutdown(ctx context.Context) error
	Close() error
}

// Serve serves until stop ends or serving fails. When stop has ended, requests under
// way are answered until the context of grace ends.
func Serve(stop context.Context, s Server, listener net.Listener, grace func() (context.Context, context.CancelFunc)) error {
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	select {
	case <-stop.Done():
	case err := <-served:
		return err
	}
	ctx, cancel := grace()
	defer cancel()
	var err error
	if s.Shutdown(ctx) != nil {
		err = s.Close() // a client that says nothing, or reads nothing, is no fault of the stop
	}
	if closed := <-served; !errors.Is(closed, http.ErrServerClosed) {
		err = errors.Join(err, closed)
	}
	return err
}
