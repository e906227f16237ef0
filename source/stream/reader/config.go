package reader

import (
	"context"
	"log/slog"

	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/stream"
)

// Config holds a reader's settings.
type Config struct {
	Client stream.Config
	Names  rabbit.Names
	// MaxHeldBytes bounds what is read and not settled, of all streams. A chunk comes in
	// whole.
	MaxHeldBytes int64
}

// Ports is what a reader is joined to.
type Ports struct {
	Positions profile.Positions
	Share     Share
	// Outside begins a session for the copies and dead letters of a stream's events.
	Outside func() *consume.Outside
	// CloseWindows closes the windows of all users, where no more fits; nil: there are none.
	CloseWindows func()
	Log          *slog.Logger
}

// deliver hands events to their windows.
type deliver = func(ctx context.Context, deliveries []profile.Delivery) error
