package app

import (
	"keyfold/internal/shutdown"
	"keyfold/internal/tracing"
	"keyfold/internal/version"

	"keyfold/engine"
)

// WithTracing calls do with what sends spans, nil where no collector is set, and sends
// the last ones when do has returned.
func (a *App) WithTracing(service string, do func(*tracing.Tracing) error) error {
	t, err := tracing.Start(a.Ctx, service, version.Read().Version, a.Log)
	if err != nil {
		return engine.ConfigurationError("tracing", err)
	}
	defer func() {
		ctx, cancel := a.Clock.Context(a.Ctx, shutdown.ConnCloseTimeout)
		defer cancel()
		t.Close(ctx)
	}()
	return do(t)
}
