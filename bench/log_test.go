package main

import (
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

const log = `{"user_id":17,"event_type":"product_view","product_id":3,"occurred_at":"2026-03-02T08:00:00Z","message_id":"a"}
{"user_id":18,"event_type":"search","search_phrase":"shoes","occurred_at":"2026-03-02T08:00:01Z","message_id":"b"}
no event

{"user_id":17,"event_type":"product_click","product_id":3,"occurred_at":"2026-03-02T08:00:02Z","message_id":"c"}
{"user_id":17,"event_type":"product_click","product_id":9,"occurred_at":"2026-03-02T08:00:03Z","message_id":"d"}
`

// A log gives its events, again from the first where more are needed, with ids of their own,
// and its products.
func TestEventsOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.ndjson.gz")
	file, err := os.Create(path)
	must.OK(t, err)
	zip := gzip.NewWriter(file)
	_, err = zip.Write([]byte(log))
	must.OK(t, errors.Join(err, zip.Close(), file.Close()))
	r := begin()
	bodies, products, err := logFlag{Events: path}.bodies(r, nil)
	if err != nil || len(bodies) != 4 || len(products) != 2 || products[0].ID != 3 || products[1].ID != 9 {
		t.Fatalf("%d events of %v: %v", len(bodies), products, err)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], path+": 1 line left out") {
		t.Errorf("notes are %q", r.Notes)
	}
	event := ofBodies(bodies, false)
	for i, want := range []int32{3, 0, 3, 9, 3} {
		body, _, err := event(i, "own")
		must.OK(t, err)
		e, err := profile.ParseEvent(body, r.Started)
		if err != nil || e.ProductID != want || e.MessageID != "own" {
			t.Errorf("event %d is %s: %v", i, body, err)
		}
	}
}

func TestLogWithoutEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.ndjson")
	must.OK(t, os.WriteFile(path, []byte("no event\n"), 0o600))
	if _, _, err := (logFlag{Events: path}).bodies(begin(), nil); err == nil || !strings.Contains(err.Error(), "has no event") {
		t.Error(err)
	}
}
