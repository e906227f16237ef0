package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
)

// logged returns a handler and what it logs, debugging included.
func logged(s Store) (handler, *bytes.Buffer) {
	var out bytes.Buffer
	return handlerWith(s, slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), &out
}

func TestStoreFaults(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status int
		reason string
	}{
		{errDisk, 503, "store_failed"},
		{fmt.Errorf("outbox: %w", engine.ErrUnknown), 503, "store_failed"},
		{fmt.Errorf("outbox: %w", engine.ErrAway), 503, "store_away"},
		{engine.ConfigurationError("no_table", errors.New("no table; run keyfold setup")), 503, "store_failed"},
		{engine.PermanentError("too_long", errors.New("row secret-host too long")), 400, "store_refused"},
		{context.DeadlineExceeded, 503, "store_failed"},
	} {
		m := newMemory()
		m.err = tc.err
		h, out := logged(m)
		w, answer := post(t, h, asJSON, view(1))
		if w.Code != tc.status || answer.Errors[0].Reason != tc.reason || strings.Contains(answer.Errors[0].Error, tc.err.Error()) {
			t.Errorf("%v: %d %+v", tc.err, w.Code, answer)
		}
		if (w.Code == 503) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%v: Retry-After %q", tc.err, w.Header().Get("Retry-After"))
		}
		id := w.Header().Get("X-Request-Id")
		if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), tc.err.Error()) || !strings.Contains(out.String(), id) {
			t.Errorf("%v is logged as %s", tc.err, out)
		}
	}
}

// A store that hangs is given up, and the sender told.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.adding = func(ctx context.Context) { <-ctx.Done(); m.err = ctx.Err() }
		started := time.Now()
		w, answer := post(t, newTestHandler(m), asJSON, view(1))
		if w.Code != 503 || answer.Errors[0].Reason != "store_failed" || time.Since(started) != StoreTimeout {
			t.Errorf("%d %+v after %v", w.Code, answer, time.Since(started))
		}
	})
}

// Logs say who and why, never what.
func TestLogsHoldNoPayload(t *testing.T) {
	h, out := logged(newMemory())
	secret := "surprise for Anna"
	_, _ = post(t, h, asJSON, event("event_type", `"search"`, "search_phrase", `"`+secret+`"`))
	_, _ = post(t, h, asJSON, event("event_type", `"search"`, "product_id", "", "search_phrase", `"`+secret+`"`))
	if strings.Contains(out.String(), "Anna") {
		t.Errorf("the log has a phrase: %s", out)
	}
	if !strings.Contains(out.String(), "level=INFO") || !strings.Contains(out.String(), "reason=phrase_and_product") {
		t.Errorf("the refusal is not told: %s", out)
	}
}

// A request without events says nothing of the store, and one that stores some ends the
// outage.
func TestARequestWithoutEventsEndsNoOutage(t *testing.T) {
	m := newMemory()
	h := newTestHandler(m)
	for _, step := range []struct {
		err   error
		body  string
		ready int
	}{{errDisk, view(1), 503}, {nil, "[]", 503}, {nil, "{}", 503}, {nil, view(1), 200}} {
		m.err = step.err
		_, _ = post(t, h, asJSON, step.body)
		if w, _ := serve(t, h, request(http.MethodGet, "/readyz", "", nil)); w.Code != step.ready {
			t.Errorf("after %s with %v: %d, want %d", step.body, step.err, w.Code, step.ready)
		}
	}
}
