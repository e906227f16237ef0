package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

func TestRequestIDs(t *testing.T) {
	for id, kept := range map[string]bool{
		"7b9f0c1e-0d3a-4a57-9d2c-1f2e3d4c5b6a": true, "Root=1-67891233-abcdef012345678912345678": true, "a": true, strings.Repeat("x", 128): true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a\nb": false, "<script>": false, `"`: false, "é": false, "\x00": false, "%0d%0aSet-Cookie:x": false,
	} {
		r := request(http.MethodGet, "/livez", "", nil)
		r.Header.Set("X-Request-Id", id)
		w, _ := serve(t, newTestHandler(newMemory()), r)
		got := w.Header().Get("X-Request-Id")
		if (got == id) != kept || got == "" || strings.ContainsFunc(got, outside("._:=+/-")) {
			t.Errorf("%q is answered with %q", id, got)
		}
	}
	r := request(http.MethodGet, "/livez", "", nil)
	one, _ := serve(t, newTestHandler(newMemory()), r)
	two, _ := serve(t, newTestHandler(newMemory()), r)
	if one.Header().Get("X-Request-Id") == two.Header().Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	s := newTestServer(t, onLoopback(), newMemory())
	for _, r := range []*http.Request{
		from("192.0.2.1:1", ""), request("GET", "/livez", "", nil), request("GET", "/nowhere", "", nil), request("DELETE", "/v1/events", "", nil),
	} {
		w, _ := serve(t, s, r)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Strict-Transport-Security": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", r.URL.Path, name, got)
			}
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", r.URL.Path, w.Header())
		}
	}
}

// logged returns a handler and what it logs, debugging included.
func logged(m *memory) (*Handler, *bytes.Buffer) {
	var out bytes.Buffer
	return NewHandler(m, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))), &out
}

// An outage is told when it begins and when it ends, whether requests or looks at the
// store meet it. Where requests met it, a look that finds the store there does not
// mean that events are stored again.
//
// Promise(shutdown/one-line)
func TestOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h, out := logged(m)
		expect := func(when string, began, ended int) {
			t.Helper()
			if b, e := strings.Count(out.String(), "level=ERROR"), strings.Count(out.String(), "events are stored again"); b != began || e != ended {
				t.Errorf("%s: %d beginnings and %d ends are told, want %d and %d: %s", when, b, e, began, ended, out)
			}
		}
		m.err = errDisk
		for range 100 {
			_, _ = post(t, h, asJSON, view(1))
			time.Sleep(100 * time.Millisecond)
		}
		expect("requests fail", 1, 0)
		time.Sleep(failureHold)
		_ = h.Ready()
		expect("the store can be read", 1, 0)
		m.err = nil
		_, _ = post(t, h, asJSON, view(1))
		expect("stored", 1, 1)
		if !strings.Contains(out.String(), "away_for=20s") {
			t.Errorf("the end does not say how long it lasted: %s", out)
		}
		m.ready = errDisk
		for range 3 {
			time.Sleep(time.Minute)
			_ = h.Ready()
		}
		expect("looks fail", 2, 1)
		m.ready = nil
		time.Sleep(time.Minute)
		_ = h.Ready()
		expect("a look succeeds", 2, 2)
	})
}

// Requests that are not let in leave a line a minute for each reason, with their
// number and the last one's address, and never the token.
//
// Promise(security/refusals-logged): Wrong tokens and malformed messages leave a line with address or
// id, alike ones one a minute with their number; no token, no payload.
func TestRefusedTokensAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := onLoopback()
		c.Tokens = []string{"right-token-00001"}
		var out bytes.Buffer
		s, err := NewServer(c, NewHandler(newMemory(), slog.New(slog.NewTextHandler(&out, nil))))
		must.OK(t, err)
		for i := range 12 {
			_, _ = serve(t, s, from(fmt.Sprintf("192.0.2.%d:9", i), "wrong-token-00002"))
		}
		_, _ = serve(t, s, from("192.0.2.77:9", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, want := range []string{
			"count=1 reason=token_invalid remote=192.0.2.0 hint=", "count=11 reason=token_invalid remote=192.0.2.11 hint=",
			"count=1 reason=token_missing remote=192.0.2.77 hint=",
		} {
			if strings.Count(out.String(), want) != 1 {
				t.Errorf("no %q in %s", want, &out)
			}
		}
		if strings.Count(out.String(), "\n") != 3 || strings.Contains(out.String(), "wrong-token") {
			t.Errorf("logged %s", &out)
		}
	})
}

// failed returns how many requests were answered with a 5xx status.
func failed(h *Handler) (n int64) {
	for i := 500; i < len(h.stats.statuses); i++ {
		n += h.stats.statuses[i].Load()
	}
	return n
}

// A sender that hangs up is no failure of the store.
func TestSenderLeaves(t *testing.T) {
	m := newMemory()
	ctx, leave := context.WithCancel(context.Background())
	m.adding = func(ctx context.Context) { leave(); <-ctx.Done(); m.err = ctx.Err() }
	h, out := logged(m)
	r := request(http.MethodPost, "/v1/events", asJSON, strings.NewReader(view(1))).WithContext(ctx)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if strings.Contains(out.String(), "ERROR") || failed(h) != 0 || h.stats.Abandoned.Load() != 1 {
		t.Errorf("%d failed, %d abandoned: %s", failed(h), h.stats.Abandoned.Load(), out)
	}
}

// However many ask, the store is looked at once a second.
//
// Promise(security/not-ready)
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h, out := logged(m)
		for range 100 {
			if w, _ := serve(t, h, request("GET", "/readyz", "", nil)); w.Code != 200 {
				t.Fatalf("ready: %d", w.Code)
			}
		}
		if m.looks != 1 {
			t.Errorf("the store was looked at %d times", m.looks)
		}
		m.ready = errors.New("db.internal is away")
		time.Sleep(time.Second)
		w, answer := serve(t, h, request("GET", "/readyz", "", nil))
		if w.Code != 503 || answer.Errors[0].Reason != "not_ready" || strings.Contains(w.Body.String(), "db.internal") || !strings.Contains(out.String(), "db.internal") {
			t.Errorf("not ready: %d %+v, logged %s", w.Code, answer, out)
		}
		if w, _ := serve(t, h, request("GET", "/livez", "", nil)); w.Code != 200 {
			t.Errorf("alive: %d", w.Code)
		}
	})
}

// A store that can be read and not written to, as on a full disk, is not ready
// while requests meet that, and for as long as one that came to its end would
// show.
//
// Promise(security/not-ready): An API whose store takes no writes is not ready for 10 s after each
// failure; `/readyz` looks at the database once a second.
func TestNotReadyWhileNothingIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h, _ := logged(m)
		ready := func(when string, want int) {
			t.Helper()
			if w, _ := serve(t, h, request("GET", "/readyz", "", nil)); w.Code != want {
				t.Errorf("%s: %d, want %d", when, w.Code, want)
			}
		}
		m.err = errDisk
		for range 3 {
			if w, _ := post(t, h, asJSON, view(1)); w.Code != 503 {
				t.Errorf("on a full disk: %d", w.Code)
			}
			time.Sleep(failureHold - 1)
			ready("on a full disk", 503)
		}
		m.err = nil
		_, _ = post(t, h, asJSON, view(1))
		ready("stored again", 200)
		m.err = errDisk
		_, _ = post(t, h, asJSON, view(1))
		time.Sleep(failureHold)
		ready("after a while without requests", 200)
		m.err = engine.PermanentError("store_rejected", errDisk)
		_, _ = post(t, h, asJSON, view(1))
		ready("refused for good", 200)
		m.err = errDisk
		ctx, leave := context.WithCancel(t.Context())
		leave()
		_, _ = serve(t, h, request("POST", "/v1/events", asJSON, strings.NewReader(view(1))).WithContext(ctx))
		ready("a sender that left", 200)
	})
}
