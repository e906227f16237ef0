package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"

	"keyfold/engine"
	"keyfold/engine/notify/rule"
	"keyfold/engine/profile"
	"keyfold/sink/mongodb"
	"keyfold/source/vector"
)

// tasted is what `notify score calibrate -o json` prints.
type tasted struct {
	Types []struct {
		Type  string `json:"event_type"`
		Known int    `json:"known"`
		Used  int    `json:"used"`
	} `json:"by_type"`
	Skipped map[string]int `json:"skipped"`
	Floor   *float64       `json:"taste_floor"`
}

func (s *notifyStack) calibrate(t *testing.T) (c tasted) {
	t.Helper()
	must.OK(t, json.Unmarshal([]byte(s.must(t, "score", "calibrate", "-o", "json")), &c))
	return c
}

// withTaste starts a worker with NOTIFY_AI=on and a set in which taste counts.
func (s *notifyStack) withTaste(t *testing.T, mongo string) *daemon {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set.json")
	must.OK(t, os.WriteFile(set, bytes.Replace(rule.Default(), []byte(`"taste": false`), []byte(`"taste": true`), 1), 0o600))
	return startDaemon(t, "notify", "work", "--rabbitmq-dsn="+s.dsn, "--notify-database-url="+s.database, "--retry-delay=20ms",
		"--max-retries=1", "--admin-addr=127.0.0.1:0", "--log-format=json",
		"--notify-ai=on", "--notify-rules="+set, "--mongodb-uri="+mongo, "--embedder=hash", "--dimensions=64")
}

// profile stores the taste of user 17.
func putProfile(t *testing.T, mongo, like string) {
	t.Helper()
	hash, err := vector.NewHash(64)
	must.OK(t, err)
	raw, err := hash.Embed(t.Context(), []string{like})
	must.OK(t, err)
	unit, err := engine.Unit(raw[0], 64)
	must.OK(t, err)
	c := mongodb.DefaultConfig()
	c.URI, c.Dimensions, c.Model = mongo, 64, vector.HashModel
	store, err := mongodb.Open(t.Context(), c)
	must.OK(t, err)
	p := &profile.Profile{
		UserID: 17, Version: 1, Vector: unit, Mass: 1, Updated: engine.Now(), LastType: profile.Search, EventCount: 1,
		History: c.History, Model: c.Model, CreatedAt: engine.Now(), WrittenAt: engine.Now(),
	}
	must.OK(t, errors.Join(store.Swap(t.Context(), []*profile.Profile{p})...))
	must.OK(t, store.Close())
}

// The worker reads the profiles that `keyfold work` writes; decisions record the cosine
// and whether it counted, and `score calibrate` sums them up.
func TestNotifyWorkReadsTheTaste(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	mongo := mongotest.Start(t).URI()
	says(t, s.must(t, "score", "calibrate"), "run the workers with NOTIFY_AI=on")
	args := []string{"setup", "--rabbitmq-dsn=" + s.dsn, "--mongodb-uri=" + mongo, "--embedder=hash", "--dimensions=64"}
	if code, _, errs := keyfold(t.Context(), "", args...); code != 0 {
		t.Fatalf("setup: exit code %d: %s", code, errs)
	}
	putProfile(t, mongo, "running shoes")
	d := s.withTaste(t, mongo)
	eventually(t, "the store is reached", func() error {
		s.postTo(t, "17", "UPDATE", "running shoes")
		if c := s.calibrate(t); c.Floor == nil {
			return fmt.Errorf("skipped: %v", c.Skipped)
		}
		return nil
	})
	s.postTo(t, "17", "SECURITY", "running shoes")
	eventually(t, "all are decided", func() error {
		s.postTo(t, "18", "UPDATE", "running shoes") // once more where the store was late
		c := s.calibrate(t)
		if c.Skipped["text_kept"] != 1 || c.Skipped["no_profile"] == 0 {
			return fmt.Errorf("skipped: %v", c.Skipped)
		}
		return nil
	})
	c := s.calibrate(t)
	if last := c.Types[len(c.Types)-1]; last.Type != "all" || last.Known == 0 || *c.Floor < .99 {
		t.Errorf("%+v, floor %g", c.Types, *c.Floor)
	}
	if _, page := d.get("/metrics"); !strings.Contains(page, `keyfold_notify_ai_skipped_total{why="text_kept"} 1`+"\n") {
		t.Error(page)
	}
	says(t, s.must(t, "score", "calibrate"), "UPDATE", "all", "text_kept: 1", `"taste_floor": `)
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.log)
	}
}

// A worker whose profile store is away at its start decides without taste.
//
// Promise(notify-worker/taste-away)
func TestNotifyWorkStartsWithoutTheProfileStore(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	d := s.withTaste(t, "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100")
	eventually(t, "it is ready", d.unready)
	s.postTo(t, "17", "UPDATE", "running shoes")
	eventually(t, "it is decided", func() error {
		if c := s.calibrate(t); c.Skipped["profile_store_away"] != 1 {
			return fmt.Errorf("skipped: %v", c.Skipped)
		}
		return nil
	})
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.log)
	}
}
