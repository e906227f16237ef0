package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector"
	"keyfold/source/vector/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	dimensions = 16
	key        = "sk-test-0123456789abcdef"
)

func newClient(t testing.TB, base string, change ...func(*openai.Config)) *openai.Client {
	t.Helper()
	config := openai.DefaultConfig()
	config.BaseURL, config.Key, config.Dimensions = base, key, dimensions
	config.Timeout = time.Minute
	for _, f := range change {
		f(&config)
	}
	c, err := openai.New(config)
	must.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

func texts(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("phrase ", i)
	}
	return all
}

func TestVectorsAreTheServersInOrder(t *testing.T) {
	for _, encoding := range []string{openai.Base64, openai.Float} {
		s := embedtest.Start(t, embedtest.Config{Key: key, Model: openai.DefaultModel, Faults: embedtest.Faults{Shuffle: true}})
		c := newClient(t, s.URL(), func(c *openai.Config) { c.Encoding = encoding; c.MaxInputs = 100 })
		hash, err := vector.NewHash(dimensions)
		must.OK(t, err)
		phrases := texts(250)
		got, err := c.Embed(t.Context(), phrases)
		must.OK(t, err)
		want, _ := hash.Embed(t.Context(), phrases)
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: other vectors came back", encoding)
		}
		st, counts := c.Stats(), s.Counts()
		if st.Requests.Load() != 3 || st.Phrases.Load() != 250 || st.Tokens.Load() != int64(counts.Tokens) || counts.Tokens == 0 {
			t.Errorf("%s: requests %d, phrases %d, tokens %d of %d", encoding,
				st.Requests.Load(), st.Phrases.Load(), st.Tokens.Load(), counts.Tokens)
		}
	}
}

// What is sent: nothing but the settings, whatever the environment says.
func TestRequest(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-environment")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	t.Setenv("OPENAI_ORG_ID", "org")
	var header http.Header
	var body map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		_ = json.NewDecoder(r.Body).Decode(&body)
		_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[1,2]}],"usage":{"total_tokens":7}}`)
	}))
	defer s.Close()
	two := func(c *openai.Config) { c.Dimensions = 2 }
	for _, omit := range []bool{false, true} {
		body = nil
		c := newClient(t, s.URL+"/v1", two, func(c *openai.Config) { c.OmitDimensions = omit })
		if _, err := c.Embed(t.Context(), []string{"mug"}); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"input": []any{"mug"}, "model": "text-embedding-3-small", "encoding_format": "base64"}
		if !omit {
			want["dimensions"] = 2.0
		}
		if fmt.Sprint(body) != fmt.Sprint(want) {
			t.Errorf("sent %v, want %v", body, want)
		}
		if header.Get("Authorization") != "Bearer "+key || header.Get("OpenAI-Organization") != "" {
			t.Errorf("headers %v", header)
		}
		if n := c.Stats().Tokens.Load(); n != 7 {
			t.Errorf("%d tokens", n)
		}
	}
	if _, err := newClient(t, s.URL, two, func(c *openai.Config) { c.Key = "" }).Embed(t.Context(), []string{"mug"}); err != nil {
		t.Fatal(err)
	}
	if header.Get("Authorization") != "" {
		t.Errorf("without a key it sent %q", header.Get("Authorization"))
	}
}

func TestFaultsAndTheirKinds(t *testing.T) {
	all := func(status int, code string) embedtest.Faults {
		return embedtest.Faults{Status: status, Code: code, Message: "says " + key, RetryAfter: 1500 * time.Millisecond}
	}
	for name, tc := range map[string]struct {
		faults embedtest.Faults
		kind   engine.Kind
		reason string
		away   bool
		pause  time.Duration
	}{
		"401":       {all(401, "invalid_api_key"), engine.Configuration, "credentials_refused", false, 0},
		"403":       {all(403, ""), engine.Configuration, "right_missing", false, 0},
		"404":       {all(404, "model_not_found"), engine.Configuration, "not_there", false, 0},
		"400 model": {all(400, "model_not_found"), engine.Configuration, "settings_refused", false, 0},
		"400 all":   {all(400, "odd"), engine.Configuration, "embedding_api_refuses_all", false, 0},
		"402":       {all(402, ""), engine.Transient, "quota_spent", true, 1500 * time.Millisecond},
		"429 spent": {all(429, "insufficient_quota"), engine.Transient, "quota_spent", true, 1500 * time.Millisecond},
		"429":       {all(429, "rate_limit_exceeded"), engine.Transient, "limit_of_the_rate", false, 1500 * time.Millisecond},
		"500":       {all(500, ""), engine.Transient, "requests_fail", false, 1500 * time.Millisecond},
		"503":       {all(503, ""), engine.Transient, "requests_fail", false, 1500 * time.Millisecond},
		"418":       {all(418, ""), engine.Transient, "requests_fail", false, 1500 * time.Millisecond},
		"hang up":   {embedtest.Faults{HangUp: 1}, engine.Transient, "connection_ended", false, 0},
		"truncated": {embedtest.Faults{Truncate: 1}, engine.Transient, "bad_answer", false, 0},
		"length":    {embedtest.Faults{WrongDimensions: 1}, engine.Transient, "bad_answer", false, 0},
		"count":     {embedtest.Faults{WrongCount: 1}, engine.Transient, "bad_answer", false, 0},
		"index":     {embedtest.Faults{WrongIndex: 1}, engine.Transient, "bad_answer", false, 0},
		"nan":       {embedtest.Faults{NotFinite: 1}, engine.Transient, "bad_answer", false, 0},
		"zero":      {embedtest.Faults{Zero: 1}, engine.Transient, "bad_answer", false, 0},
		"hang":      {embedtest.Faults{Hang: 1}, engine.Transient, "no_answer_in_time", false, 0},
	} {
		for _, encoding := range []string{openai.Base64, openai.Float} {
			for _, n := range []int{1, 3} {
				t.Run(fmt.Sprint(name, " ", encoding, " ", n), func(t *testing.T) {
					s := embedtest.Start(t, embedtest.Config{Faults: tc.faults})
					c := newClient(t, s.URL(), func(c *openai.Config) {
						if c.Encoding = encoding; tc.faults.Hang > 0 {
							c.Timeout = 20 * time.Millisecond
						}
					})
					kind, reason := tc.kind, tc.reason
					if reason == "embedding_api_refuses_all" && n > 1 { // halves tell
						kind, reason = engine.Permanent, "embedding_refused"
					}
					vectors, err := c.Embed(t.Context(), texts(n))
					if err == nil || vectors != nil || engine.KindOf(err) != kind || engine.ReasonOf(err) != reason {
						t.Fatalf("%v, %v, %s: %v", vectors, engine.KindOf(err), engine.ReasonOf(err), err)
					}
					if n := s.Counts().Requests; n > 1 && reason != "embedding_api_refuses_all" {
						t.Errorf("%d requests", n)
					}
					if errors.Is(err, engine.ErrAway) != tc.away || vector.PauseOf(err) != tc.pause {
						t.Errorf("away %v, pause %v", errors.Is(err, engine.ErrAway), vector.PauseOf(err))
					}
					if strings.Contains(fmt.Sprintf("%+v", err), key) {
						t.Errorf("the key shows in %v", err)
					}
					if st := c.Stats(); st.Transient.Load()+st.Permanent.Load()+st.Configuration.Load() == 0 {
						t.Error("not counted")
					}
				})
			}
		}
	}
}

// Whoever refuses one text refuses that text; the message is the API's.
func TestRefusedInput(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Faults: embedtest.Faults{
		Refuse: func(input string) bool { return input == "bad" },
	}})
	c := newClient(t, s.URL())
	for _, phrases := range [][]string{{"bad"}, {"a", "bad", "b"}} {
		_, err := c.Embed(t.Context(), phrases)
		if engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != "embedding_refused" ||
			!strings.Contains(err.Error(), "an input is refused") {
			t.Errorf("%q: %v", phrases, err)
		}
	}
	if n := s.Asked()["product"]; n != 1 {
		t.Errorf("the harmless text was sent %d times", n)
	}
	s.SetFaults(embedtest.Faults{MaxInputs: 2})
	if _, err := c.Embed(t.Context(), texts(3)); engine.KindOf(err) != engine.Permanent {
		t.Errorf("too many inputs: %v", err)
	}
	if _, err := c.Embed(t.Context(), texts(2)); err != nil {
		t.Errorf("two inputs: %v", err)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{})
	s.Close()
	_, err := newClient(t, s.URL()).Embed(t.Context(), texts(1))
	if engine.KindOf(err) != engine.Transient || engine.ReasonOf(err) != "connection_refused" {
		t.Errorf("got %v", err)
	}
}

func TestCallerLeaves(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{Faults: embedtest.Faults{Hang: 1}})
	c := newClient(t, s.URL())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Embed(ctx, texts(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if st := c.Stats(); st.Transient.Load() != 0 {
		t.Error("a caller that left was counted as the server's failure")
	}
}

// Proxies and other servers have error bodies of their own.
//
// Promise(security/secrets)
func TestMessagesOfOtherServers(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"model is loading"}`:             "model is loading",
		`{"object":"error","message":"too busy"}`:  "too busy",
		`{"detail":"not now"}`:                     "not now",
		`{"error":{"message":"later","code":503}}`: "later",
		"<html>\n<h1>Bad  Gateway</h1>":            "<html> <h1>Bad Gateway</h1>",
		strings.Repeat("ä", 100_000):               strings.Repeat("ä", 150) + "…",
		"echo " + key:                              "echo [redacted]",
		"echo " + key[:9] + " " + key[9:] + ".":    "echo [redacted].",
		"echo " + key[:2] + "\n\t" + key[2:]:       "echo [redacted]",
		"echo " + spaced(key, "\u200b"):            "echo [redacted]",
		"echo " + spaced(key, `", "`):              "echo [redacted]",
		strings.ToUpper("echo " + key):             "ECHO [redacted]",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, body)
		}))
		_, err := newClient(t, s.URL).Embed(t.Context(), texts(1))
		if err == nil || !strings.Contains(err.Error(), "answered 502: "+want+") [") {
			t.Errorf("%.40q: %v", body, err)
		}
		s.Close()
	}
}

// spaced puts something between all characters.
func spaced(text, between string) string { return strings.Join(strings.Split(text, ""), between) }

func TestAnswersThatDoNotFit(t *testing.T) {
	for _, body := range []string{
		"", "null", "{}", "<html>", `{"data":null}`, `{"data":[null]}`, `{"data":[{"embedding":[1,2]}]}`,
		`{"data":[{"index":-1,"embedding":[1,2]}]}`, `{"data":[{"index":1,"embedding":[1,2]}]}`,
		`{"data":[{"index":0,"embedding":null}]}`, `{"data":[{"index":0}]}`, `{"data":[{"index":0,"embedding":[]}]}`,
		`{"data":[{"index":0,"embedding":[1,"2"]}]}`, `{"data":[{"index":0,"embedding":[1,1e39]}]}`,
		`{"data":[{"index":0,"embedding":[1,null]}]}`, `{"data":[{"index":0,"embedding":{"a":1}}]}`,
		`{"data":[{"index":0,"embedding":"AACAPwAAgD"}]}`, `{"data":[{"index":0,"embedding":"%%%%"}]}`,
		`{"data":[{"index":0,"embedding":"AADAfwAAgD8="}]}`, `{"data":[{"index":0,"embedding":[1,2]}]} trailing`,
		`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,2]}]}`,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
		}))
		c := newClient(t, s.URL, func(c *openai.Config) { c.Dimensions = 2 })
		if v, err := c.Embed(t.Context(), texts(1)); engine.ReasonOf(err) != "bad_answer" {
			t.Errorf("%s: %v, %v", body, v, err)
		}
		s.Close()
	}
}

// A server that never stops sending is not read for ever.
func TestAnswersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	c := newClient(t, s.URL)
	if _, err := c.Embed(t.Context(), texts(1)); engine.ReasonOf(err) != "bad_answer" {
		t.Errorf("got %v", err)
	}
}

func TestLongTexts(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{})
	c := newClient(t, s.URL(), func(c *openai.Config) { c.MaxInputBytes, c.MaxRequestBytes = 10, 15 })
	if _, err := c.Embed(t.Context(), []string{"ceramic mug", "ääääää", "0123456789abc", "x"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ceramic", "äääää", "0123456789", "x"} {
		if s.Asked()[want] != 1 {
			t.Errorf("%q was not sent: %v", want, s.Asked())
		}
	}
	if n := c.Stats().Requests.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestConfigNamesEveryFaultAndNoKey(t *testing.T) {
	if err := openai.DefaultConfig().Validate(); err == nil || !strings.Contains(err.Error(), "Key is not set: set it, or set BaseURL to") {
		t.Errorf("OpenAI without a key: %v", err)
	}
	for _, base := range []string{"", "localhost", "ftp://h", "http://", "http://u:" + key + "@h/v1", "http://h/v1?key=" + key, "http://h:" + key} {
		config := openai.Config{BaseURL: base, Key: key + "\n"}
		_, err := openai.New(config)
		for _, name := range []string{"BaseURL ", "Key holds", "Model is empty", "Dimensions is 0"} {
			if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), name) {
				t.Errorf("%q: no %s in %v", base, name, err)
			}
		}
		if strings.Contains(err.Error(), key) {
			t.Errorf("the key shows in %v", err)
		}
	}
}

func TestKeyNeverShows(t *testing.T) {
	config := openai.Config{Key: key}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("config", slog.Any("key", config.Key), slog.Any("config", config))
	encoded, _ := json.Marshal(config)
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v", config, config, config),
		fmt.Sprint(config.Key), fmt.Sprintf("%#v %x %d", config.Key, config.Key, config.Key), log.String(), string(encoded),
	} {
		if strings.Contains(text, key) || strings.Contains(text, fmt.Sprintf("%x", key)) {
			t.Errorf("it shows in %s", text)
		}
	}
}
