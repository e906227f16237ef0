package recommending

import (
	"context"
	"io"
)

// opened is a server that is connected to when a page first needs it, and again where that failed.
// One page connects at a time; the others wait as long as their own bounds allow.
type opened[T io.Closer] struct {
	turn   chan struct{} // holds one while a page has it
	server T
	is     bool
}

func newOpened[T io.Closer]() *opened[T] { return &opened[T]{turn: make(chan struct{}, 1)} }

// get returns the server, which open opens where that was not done.
func (o *opened[T]) get(ctx context.Context, open func() (T, error)) (server T, err error) {
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return server, ctx.Err()
	}
	defer func() { <-o.turn }()
	if !o.is {
		if server, err = open(); err != nil {
			return server, err
		}
		o.server, o.is = server, true
	}
	return o.server, nil
}

// Close ends the connection, where there is one.
func (o *opened[T]) Close() error {
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	if !o.is {
		return nil
	}
	return o.server.Close()
}
