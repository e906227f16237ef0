package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"keyfold/cmd/settings"
	"keyfold/engine"
	"keyfold/engine/taste"
	"keyfold/shard"
	"keyfold/source/ingest"
)

type awayStore struct{ engine.Profiles }

func (awayStore) Swap(_ context.Context, p []*engine.Profile) []error {
	errs := make([]error, len(p))
	for i := range errs {
		errs[i] = errors.New("no room on the volume")
	}
	return errs
}

// A store that fails, posts that wait for room, and then SIGTERM: the program is
// gone when its time is up.
func TestShutdownWhilePostsWaitForRoom(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := settings.Config{Taste: taste.DefaultConfig(), Shard: shard.DefaultConfig(), Retry: settings.Retry{Attempts: 5, Delay: time.Second}, Timeout: 2 * time.Second}
	c.Taste.Dimensions, c.Taste.Model, c.Shard.MaxHeld = 16, embedderModel, 4
	c.Shard.Window, c.Shard.MaxDelay = 20*time.Millisecond, 50*time.Millisecond
	n, err := openNode(&app{
		ctx: ctx, streams: streams{strings.NewReader(""), io.Discard, io.Discard}, data: t.TempDir(), config: c,
		log: slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.ports.Profiles = awayStore{n.ports.Profiles} // the store is away
	if err := n.start(shard.WallClock); err != nil {
		t.Fatal(err)
	}
	if n.intake, err = openIntake(n); err != nil {
		t.Fatal(err)
	}
	n.intake.start()
	const posts, events = 2, 4
	for i := range posts { // the second waits for room
		var entries []ingest.Entry
		for k := range events {
			body := fmt.Appendf(nil, `{"user_id":%d,"event_type":"search","search_phrase":"mug","occurred_at":"2026-02-10T14:30:00Z","message_id":"m%d-%d"}`, k+1, i, k)
			e, err := engine.ParseEvent(body, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, ingest.Entry{Body: body, Event: e})
		}
		if _, err := n.intake.Add(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
		for n.inbox.Stats().Stored < int64((i+1)*events) {
			time.Sleep(time.Millisecond)
		}
	}
	cancel() // SIGTERM
	done := make(chan error, 1)
	go func() {
		settling, release := context.WithTimeout(context.Background(), c.Timeout/2)
		defer release()
		done <- errors.Join(n.intake.settle(settling), n.quiesce(), n.closeFile())
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("events were held and nobody said so")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the store for ever")
	}
}
