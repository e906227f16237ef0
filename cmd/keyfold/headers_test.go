package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// The headers that name a request travel with its events, and with rows of the shop's
// own, to the message and into the worker's log lines about them.
func TestHeadersOfARequestTravelWithItsEvents(t *testing.T) {
	const parent, trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"
	onEach(t, outbox.SQLite, func(t *testing.T, s *shop) {
		o := s.observe(t)
		api := s.ingest(t)
		body := event(1, profile.ProductView, 999_999, time.Now(), "traced")
		req, err := http.NewRequest(http.MethodPost, api.url(), bytes.NewReader(bytes.Replace(body, []byte(`"metadata":null`), []byte(`"metadata":[]`), 1)))
		must.OK(t, err)
		for name, value := range map[string]string{"Content-Type": "application/json", "traceparent": parent, "tracestate": "a=1", "X-Request-Id": "r-42", "Cookie": "secret"} {
			req.Header.Set(name, value)
		}
		resp, err := sender.Do(req)
		must.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted || resp.Header.Get("X-Request-Id") != "r-42" {
			t.Fatalf("answered %s, request id %q", resp.Status, resp.Header.Get("X-Request-Id"))
		}
		s.exec(t, `INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, headers) VALUES (2, 'product_view', 999999, '2026-02-10 14:30:00', '{"X-Request-Id":"r-43","Cookie":"secret","traceparent":7}')`)
		api.accepted(event(3, profile.ProductView, 999_999, time.Now(), "untraced"))
		s.allSent(t)
		want := map[string]string{"1": parent + " a=1 r-42", "2": "  r-43", "3": "  "}
		messages := o.all()
		if len(messages) != len(want) {
			t.Fatalf("%d messages, want %d", len(messages), len(want))
		}
		for _, m := range messages {
			text := func(name string) string { value, _ := m.Headers[name].(string); return value }
			got := strings.Join([]string{text("traceparent"), text("tracestate"), text("X-Request-Id")}, " ")
			parsed, err := profile.ParseEvent(m.Body, time.Now())
			must.OK(t, err)
			if want := want[fmt.Sprint(parsed.UserID)]; got != want || m.Headers["Cookie"] != nil {
				t.Errorf("user %d: the message has the headers %v, want %q", parsed.UserID, m.Headers, want)
			}
		}
		for _, user := range []string{"1", "2"} { // the worker logs each event that it skips
			s.must(t, "user", "forget", user, "--yes")
		}
		worker := s.work(t, quick).ready()
		eventually(t, "the worker has logged the requests", func() error {
			log := worker.log.String()
			for _, word := range []string{`"trace_id":"` + trace + `","request_id":"r-42"`, `"request_id":"r-43"`} {
				if !strings.Contains(log, word) {
					return errors.New("no line has " + word)
				}
			}
			return nil
		})
	})
}
