package main

import (
	"context"

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

// openChecked connects to MongoDB and checks that it is set up.
func openChecked(ctx context.Context, a *app) (*mongodb.Store, error) {
	store, err := openStore(a)
	if err != nil {
		return nil, err
	}
	if err := store.Check(ctx); err != nil {
		_ = store.Close() // it has nothing to add
		return nil, err
	}
	return store, nil
}
