package webhook_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"

	"keyfold/sink/senders/message"
	"keyfold/sink/senders/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dispatch() notify.Dispatch {
	id := uuid.New()
	return notify.Dispatch{
		ID:      id,
		Records: []notify.Record{{EventID: id, UserID: "17", Outcome: notify.Now}},
		Events:  []*notify.Notification{{ID: id, Type: notify.Update, Title: "x", Body: []byte(`{}`)}},
	}
}

// send posts one dispatch to a receiver with quick retries.
func send(t *testing.T, path string, receiver http.HandlerFunc) (notify.Dispatch, error) {
	t.Helper()
	server := httptest.NewServer(receiver)
	defer server.Close()
	config := webhook.DefaultConfig(server.URL + path)
	config.Pause, config.MaxPause, config.Timeout, config.Attempts = time.Millisecond, time.Millisecond, 5*time.Second, 3
	w, err := webhook.New(config)
	must.OK(t, err)
	defer w.Close()
	d := dispatch()
	return d, w.Send(t.Context(), []notify.Dispatch{d})[0]
}

func TestADispatchIsPosted(t *testing.T) {
	var got message.Message
	var key, kind string
	d, err := send(t, "/in?a=1", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &got)
		key, kind = r.Header.Get("Idempotency-Key"), r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")
	})
	if err != nil || got.DispatchID != d.ID || key != d.ID.String() || kind != "POST /in?a=1 application/json" {
		t.Errorf("%v: %+v, key %s, %s", err, got, key, kind)
	}
}

// 5xx and 429 are tried again, as often as the settings say; other answers are final.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status    int
		tries     int32
		permanent bool
	}{{500, 3, false}, {503, 3, false}, {429, 3, false}, {400, 1, true}, {404, 1, true}, {304, 1, true}} {
		var tries atomic.Int32
		_, err := send(t, "", func(w http.ResponseWriter, _ *http.Request) {
			tries.Add(1)
			w.WriteHeader(c.status)
		})
		if err == nil || tries.Load() != c.tries || (engine.KindOf(err) == engine.Permanent) != c.permanent {
			t.Errorf("%d: %v after %d tries", c.status, err, tries.Load())
		}
	}
	var tries atomic.Int32
	if _, err := send(t, "", func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}); err != nil {
		t.Errorf("the third try is taken: %v", err)
	}
}

// After a receiver did not answer, nothing is posted for a while.
func TestRest(t *testing.T) {
	var posts atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if posts.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		rest  time.Duration
		posts int32
	}{{time.Hour, 1}, {0, 2}} {
		posts.Store(0)
		config := webhook.DefaultConfig(server.URL)
		config.Attempts, config.Rest = 1, c.rest
		w, err := webhook.New(config)
		must.OK(t, err)
		first, second := w.Send(t.Context(), []notify.Dispatch{dispatch()})[0], w.Send(t.Context(), []notify.Dispatch{dispatch()})[0]
		if first == nil || errors.Is(second, engine.ErrAway) != (c.posts == 1) || posts.Load() != c.posts {
			t.Errorf("rest %v: %v, then %v, %d posts", c.rest, first, second, posts.Load())
		}
		w.Close()
	}
}

// Users' texts go to the host that was named, by POST.
func TestRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host was asked") }))
	defer other.Close()
	if _, err := send(t, "", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}); engine.KindOf(err) != engine.Permanent || !strings.Contains(err.Error(), "another host") {
		t.Errorf("another host: %v", err)
	}
	if _, err := send(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			t.Errorf("a %s", r.Method)
		}
		http.Redirect(w, r, "/there", http.StatusFound)
	}); engine.KindOf(err) != engine.Permanent {
		t.Errorf("a redirect to GET: %v", err)
	}
	var bodies atomic.Int32
	if _, err := send(t, "/here", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/here" {
			http.Redirect(w, r, "/there", http.StatusPermanentRedirect)
		} else if body, _ := io.ReadAll(r.Body); len(body) > 2 {
			bodies.Add(1)
		}
	}); err != nil || bodies.Load() != 1 {
		t.Errorf("the same host: %v, %d bodies", err, bodies.Load())
	}
}

func TestAddressesAreChecked(t *testing.T) {
	for _, bad := range []string{"", "example.org", "ftp://example.org", "http://", "https:///path", "http://h/#f", "http://[::1"} {
		if _, err := webhook.New(webhook.DefaultConfig(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	config := webhook.DefaultConfig("nowhere://user:secret@h?token=secret")
	config.Timeout, config.Attempts, config.Concurrency = 0, 0, 0
	err := config.Validate()
	if err == nil || strings.Contains(err.Error(), "secret") || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("%v", err)
	}
}

// The secret of an address stands in no error.
func TestErrorsHaveNoSecret(t *testing.T) {
	config := webhook.DefaultConfig("http://127.0.0.1:1/in?token=secret")
	config.Attempts = 1
	w, err := webhook.New(config)
	must.OK(t, err)
	defer w.Close()
	if err := w.Send(t.Context(), []notify.Dispatch{dispatch()})[0]; err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
