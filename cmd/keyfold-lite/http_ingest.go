package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/inbox"
	"keyfold/source/outbox"
)

// outboxName is the SQLite file of what came over HTTP: the table
// user_interactions, as `keyfold ingest` keeps it. It is a file of its own, so
// that posts do not wait for the profiles' writer.
const outboxName = "outbox.db"

// httpIngest is the way of a post to the windows, the one of `keyfold ingest
// --relay` with the inbox in the broker's place: stored and answered, then
// relayed into the inbox, then marked.
type httpIngest struct {
	*runtime
	db    *outbox.Database
	store *outbox.Store
	relay *outbox.Relay
	stop  context.CancelFunc
	work  sync.WaitGroup // the relay, and what publishes the rest at the end

	left   int64        // rows that an earlier process left unpublished
	passed atomic.Int64 // rows that the inbox took
}

// openOutbox opens the file of posts in the data folder.
func openOutbox(a *app) (*outbox.Database, error) {
	path, err := filepath.Abs(filepath.Join(a.data, outboxName))
	if err != nil {
		return nil, err
	}
	file := url.URL{Scheme: "sqlite", Path: filepath.ToSlash(path)}
	return outbox.Open(file.String())
}

// posted reads a user's posts that occurred since then, by message_id. What
// `keyfold history prune` deleted is missing.
func posted(ctx context.Context, a *app, user int32, since engine.Millis) (events map[string]profile.Event, err error) {
	if _, absent := os.Stat(filepath.Join(a.data, outboxName)); absent != nil {
		return nil, nil
	}
	db, err := openOutbox(a)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	events = map[string]profile.Event{}
	for row, err := range db.History(ctx, outbox.Filter{UserID: user, From: since}, outbox.Position{UserID: user}) {
		if err == nil {
			events[row.Event.MessageID] = row.Event
		} else if engine.KindOf(err) != engine.Permanent {
			return nil, err
		}
	}
	return events, nil
}

func openHTTPIngest(n *runtime) (*httpIngest, error) {
	db, err := openOutbox(n.app)
	if err != nil {
		return nil, err
	}
	in := &httpIngest{runtime: n, db: db, stop: func() {}}
	if err := in.open(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return in, nil
}

func (in *httpIngest) open() error {
	if err := in.db.Setup(in.ctx, outbox.SetupOptions{}); err != nil {
		return err
	}
	backlog, err := in.db.Backlog(in.ctx, 0)
	if err != nil {
		return err
	}
	in.left = backlog.Unsent
	// The inbox takes all of a call's rows, in their order, or none. So a user's
	// rows need not wait for each other, and one batch at a time keeps the order.
	in.relay = outbox.NewRelay(in.db, in, outbox.RelayConfig{
		Batches: 1, BatchShards: outbox.Shards, WholeBatches: true, Grace: time.Second,
	}, in.log)
	in.store = outbox.NewStore(in.db, outbox.StoreConfig{Committers: 1, Stored: in.relay.Wake})
	return nil
}

// recover publishes what an earlier process left.
func (in *httpIngest) recover(ctx context.Context) error {
	_, err := in.relay.Drain(ctx, outbox.Filter{}, nil)
	return err
}

// start publishes from now on what is stored.
func (in *httpIngest) start() {
	ctx, stop := context.WithCancel(context.WithoutCancel(in.ctx))
	in.stop = stop
	in.work.Go(func() { in.relay.Run(ctx) })
}

// settle stores and publishes what was posted, as far as ctx allows; the rest is
// the next process's.
func (in *httpIngest) settle(ctx context.Context) error {
	err := in.store.Close(ctx)
	in.stop()
	done := make(chan struct{})
	in.work.Go(func() {
		defer close(done)
		_ = in.recover(ctx) // ends with ctx only
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
	return err
}

// close ends everything. The windows are closed by then: nothing waits for room
// in them.
func (in *httpIngest) close() error {
	in.stop()
	in.work.Wait()
	return errors.Join(in.store.Close(context.WithoutCancel(in.ctx)), in.db.Close())
}

// ready reports why nothing can be stored now, or why nothing that is stored gets
// to the windows.
func (in *httpIngest) ready(ctx context.Context) error {
	return errors.Join(in.db.Check(ctx), in.relay.Fault())
}

// Publish puts rows into the inbox and hands the new ones to the windows, for
// whose room it waits: that holds the relay back, and no post. Rows that are in
// the inbox are published: the next process delivers what this one does not.
func (in *httpIngest) Publish(ctx context.Context, rows []outbox.Row) []error {
	arrivals := make([]inbox.Arrival, len(rows))
	for i := range rows {
		arrivals[i] = inbox.Arrival{Body: rows[i].Body, Event: rows[i].Event, Kept: true}
	}
	_, deliveries, err := in.inbox.Add(ctx, arrivals)
	if err != nil {
		if engine.KindOf(err) == engine.Permanent {
			// Of one of them, at most: no reason to give up on any.
			err = &engine.Error{Kind: engine.Transient, Reason: engine.ReasonOf(err), Err: err}
		}
		return slices.Repeat([]error{err}, len(rows))
	}
	in.passed.Add(int64(len(rows)))
	_ = in.deliver(in.failed, deliveries) // refused as the process stops: the next one recovers them
	return make([]error, len(rows))
}
