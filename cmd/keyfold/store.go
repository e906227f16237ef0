package main

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
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
	waits := backoff.Backoff{Min: time.Second, Max: 15 * time.Second}
	for attempt := 1; ; attempt++ {
		store, err := openChecked(a)
		if err == nil || engine.KindOf(err) == engine.Configuration || a.ctx.Err() != nil {
			return store, err
		}
		pause := waits.Next()
		a.log.Warn("store is not there yet; trying again", slog.Int("attempt", attempt), slog.Duration("in", pause), slog.Any("error", err))
		if !backoff.Sleep(a.ctx, pause) {
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
