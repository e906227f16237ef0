package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"keyfold/engine/backoff"
	"keyfold/sink/ledger/postgres"
)

//go:embed notify_rules.json
var soakRules []byte

// exchangeEvery is the time between two sets: each is in force for a while.
const exchangeEvery = 4 * time.Second

// soakSet returns a set whose caps and reasons differ from those of others: a record shows
// by whose rules it was made.
func soakSet(n int64) []byte {
	text := bytes.Replace(soakRules, []byte(`"5m": 4`), fmt.Appendf(nil, `"5m": %d`, 3+n%3), 1)
	return bytes.ReplaceAll(text, []byte(`"ORDERS_DIGEST"`), fmt.Appendf(nil, `"ORDERS_DIGEST_%d"`, n))
}

// publishNext puts another set in the place of the one in force.
func (s *notifySoak) publishNext(ctx context.Context) error {
	store, err := postgres.Open(s.Ledger, 1)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	active, err := store.Active(ctx)
	if err == nil {
		_, err = store.Publish(ctx, postgres.Publication{Document: soakSet(active.Set), By: "soak", Note: "soak", IfActive: active.Set})
	}
	return err
}

// exchange publishes sets until ctx ends, also while PostgreSQL is killed: what was lost of
// an answer is read at the end.
func (s *notifySoak) exchange(ctx context.Context) {
	for backoff.Sleep(ctx, exchangeEvery) {
		_ = s.publishNext(ctx)
	}
}

// addSets takes the sets that were published in among the laws.
func (s *notifySoak) addSets(ctx context.Context, store *postgres.Ledger) error {
	const most = 100_000
	sets, err := store.RuleSets(ctx, most)
	for i := range sets {
		if err == nil {
			err = s.laws.Add(sets[i].Document, strconv.FormatInt(sets[i].Version, 10))
		}
	}
	s.published.Store(int64(len(sets)))
	return err
}
