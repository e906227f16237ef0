package main

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/sink/mongodb"
)

// openStore connects to MongoDB, once.
func openStore(a *app) (*mongodb.Store, error) {
	c := mongodb.DefaultConfig()
	c.URI, c.Database = a.servers.MongoDB, a.servers.Database
	c.Dimensions, c.History, c.Model = a.config.Taste.Dimensions, a.config.Taste.History, a.config.Taste.Model
	store, err := mongodb.Open(a.ctx, c)
	return store, storeUnreached(err)
}

// awaitStore connects to MongoDB and checks that it is set up, for as long as it
// takes: a daemon may start before its servers. A configuration fault ends the
// wait, as no time cures it.
func awaitStore(a *app) (*mongodb.Store, error) {
	for attempt, pause := 1, time.Second; ; attempt, pause = attempt+1, min(2*pause, 15*time.Second) {
		store, err := openChecked(a)
		if err == nil || engine.KindOf(err) == engine.Configuration || a.ctx.Err() != nil {
			return store, err
		}
		a.log.Warn("store is not there yet; trying again", slog.Int("attempt", attempt), slog.Duration("in", pause), slog.Any("error", err))
		select {
		case <-time.After(pause):
		case <-a.ctx.Done():
			return nil, context.Cause(a.ctx)
		}
	}
}

func openChecked(a *app) (*mongodb.Store, error) {
	store, err := openStore(a)
	if err != nil {
		return nil, err
	}
	if err := store.Check(a.ctx); err != nil {
		_ = store.Close() // it has nothing to add
		return nil, err
	}
	return store, nil
}
