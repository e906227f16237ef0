package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

func reviewBodies(n, from int) [][]byte {
	var all [][]byte
	for i := range n {
		all = append(all, fmt.Appendf(nil, `{"user_id":17,"event_type":"product_view","search_phrase":null,"product_id":%d,`+
			`"occurred_at":"2026-02-10T14:%02d:00+00:00","metadata":null,"message_id":"m%d","version":"1.0"}`, i%5+1, from+i, from+i))
	}
	return all
}

// stored puts bodies into a database as a relay left them: sent so long ago.
func (s *stack) stored(t *testing.T, path string, ago time.Duration, bodies [][]byte) {
	t.Helper()
	db, err := outbox.Open("sqlite://" + path)
	must.OK(t, err)
	defer db.Close()
	must.OK(t, db.Setup(t.Context(), outbox.SetupOptions{}))
	store := outbox.NewStore(db, outbox.StoreConfig{})
	var entries []profile.Entry
	for _, b := range bodies {
		e, err := profile.ParseEvent(b, time.Now())
		must.OK(t, err)
		entries = append(entries, profile.Entry{Event: e, Body: b})
	}
	_, err = store.Add(t.Context(), entries)
	must.OK(t, err, store.Close(context.Background()))
	raw, err := sql.Open("sqlite", path)
	must.OK(t, err)
	defer raw.Close()
	at := time.Now().Add(-ago).UTC().Format("2006-01-02 15:04:05.000")
	_, err = raw.Exec("UPDATE user_interactions SET processed_to_queue = 1, sent_at = ?, created_at = ? WHERE processed_to_queue = 0", at, at)
	must.OK(t, err)
}

func (s *stack) count(t *testing.T) int64 {
	p := allProfiles(t, s.open(t))[17]
	if p == nil {
		return 0
	}
	return p.EventCount
}

// The worker stood still over a weekend (a configuration fault whose cure is
// `user rebuild --all`); events wait in the queue for longer than the ids are
// kept. Rebuilt, then consumed: each is in the profile once.
func TestRebuildBesideABacklogOfTwoDays(t *testing.T) {
	s := newStack(t)
	path := filepath.Join(t.TempDir(), "shop.db")
	before, weekend := reviewBodies(10, 0), reviewBodies(10, 20)
	s.stored(t, path, 72*time.Hour, before)
	s.publish(t, before...)
	d := s.work(t, quick).ready()
	eventually(t, "folded", func() error {
		if n := s.count(t); n != 10 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	d.stop()
	s.stored(t, path, 48*time.Hour, weekend)
	s.publish(t, weekend...)

	code, out, errs := s.run(t, "", "user", "rebuild", "--all", "--database-url", "sqlite://"+path)
	t.Log(code, out, errs)
	t.Logf("%d events after the rebuild", s.count(t))
	d = s.work(t, quick).ready()
	d.consumed(10)
	if n := s.count(t); n != 20 {
		t.Errorf("the profile counts %d events of 20: %d were folded twice", n, n-20)
	}
}

// consumed waits until the worker has given so many events their last verdict.
func (d *daemon) consumed(want int64) {
	d.t.Helper()
	eventually(d.t, "events are consumed", func() error {
		if n := d.metric(`keyfold_events_total{outcome="folded"}`) + d.metric(`keyfold_events_total{outcome="duplicate"}`) + d.metric(`keyfold_dead_letters_total`); n != want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}

// Events lie dead-lettered for three days; the user is rebuilt (which folds
// them), then they are replayed.
func TestRebuildThenReplayOfOldDeadLetters(t *testing.T) {
	s := newStack(t)
	path := filepath.Join(t.TempDir(), "shop.db")
	before, dead := reviewBodies(10, 0), reviewBodies(5, 20)
	s.stored(t, path, 72*time.Hour, append(before, dead...))
	s.publish(t, before...)
	d := s.work(t, quick).ready()
	eventually(t, "folded", func() error {
		if n := s.count(t); n != 10 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	code, out, errs := s.run(t, "", "user", "rebuild", "17", "--database-url", "sqlite://"+path)
	t.Log(code, out, errs)
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "replay", rabbit.Timing{}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	defer p.Close(context.Background())
	var messages []rabbit.Message
	for _, b := range dead {
		e, err := profile.ParseEvent(b, time.Now())
		must.OK(t, err)
		m := rabbit.DefaultNames().EventMessage(b, &e)
		m.Headers = map[string]any{rabbit.HeaderFirstSeen: int64(engine.MillisOf(time.Now().Add(-72 * time.Hour)))}
		messages = append(messages, m)
	}
	must.OK(t, p.Publish(t.Context(), messages)...)
	d.consumed(15)
	if n := s.count(t); n != 15 {
		t.Errorf("the profile counts %d events of 15: %d were folded twice", n, n-15)
	}
}

// Two events went to the broker past the database and are in the profile; four
// more of the database are on their way. The history has more events than the
// profile counts, and lacks two of them all the same.
func TestRebuildLosesEventsTheHistoryLacks(t *testing.T) {
	s := newStack(t)
	path := filepath.Join(t.TempDir(), "shop.db")
	direct, before, inFlight := reviewBodies(2, 40), reviewBodies(8, 0), reviewBodies(4, 20)
	s.stored(t, path, time.Hour, append(before[:8:8], inFlight...))
	s.publish(t, append(direct[:2:2], before...)...)
	d := s.work(t, quick).ready()
	eventually(t, "folded", func() error {
		if n := s.count(t); n != 10 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	code, out, errs := s.run(t, "", "user", "rebuild", "17", "--database-url", "sqlite://"+path)
	t.Log(code, out, errs)
	s.publish(t, inFlight...)
	eventually(t, "consumed", func() error {
		if n := d.metric(`keyfold_events_total{outcome="folded"}`) + d.metric(`keyfold_events_total{outcome="duplicate"}`); n != 14 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	if n := s.count(t); n != 14 {
		t.Errorf("the profile counts %d events of 14: %d folded ones were lost, without --force", n, 14-n)
	}
}
