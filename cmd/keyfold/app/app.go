// Package app is what keyfold's commands work with: settings, connections to the
// servers, and the admin endpoint.
package app

import (
	"context"
	"log/slog"

	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/internal/shutdown"
	"keyfold/service/profile/embedding"
)

// App is what every command works with.
type App struct {
	cli.Console
	Ctx     context.Context // a program's, from main to its commands
	Clock   *shutdown.Clock // of its end
	Servers Servers
	Queues  Queues
	Outbox  Outbox
	Vectors embedding.Config
	Notify  Notify
	Config  settings.Config
	Log     *slog.Logger
	// LogLevel is that of Log.
	LogLevel *slog.LevelVar
}
