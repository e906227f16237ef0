package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A cookie lets in for as long as it says, by the process that gave it, and not once it was changed.
func TestSessionsEnd(t *testing.T) {
	begin := func() (*Sessions, *http.Cookie) {
		config := DefaultConfig()
		config.Tokens, config.Sessions = []string{"token-of-a-test-01"}, NewSessions()
		if _, err := NewServer(config, NewHandler(door{}, slog.New(slog.DiscardHandler))); err != nil {
			t.Fatal(err)
		}
		return config.Sessions, config.Sessions.Begin("token-of-a-test-01")
	}
	s, cookie := begin()
	_, other := begin()
	changed := *cookie
	changed.Value = "A" + changed.Value[1:]
	if changed.Value == cookie.Value {
		changed.Value = "B" + changed.Value[1:]
	}
	for name, c := range map[string]struct {
		cookie *http.Cookie
		after  time.Duration
		lets   bool
	}{
		"at once": {cookie, 0, true}, "before its end": {cookie, sessionLength - time.Hour, true}, "after its end": {cookie, sessionLength + time.Second, false},
		"changed": {&changed, 0, false}, "of another process": {other, 0, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(c.cookie)
		if _, may := s.find(r, s.tokens.get(), time.Now().Add(c.after)); (may.scopes != 0) != c.lets {
			t.Errorf("%s: let in %t", name, may.scopes != 0)
		}
	}
	if s.Begin("another-token-of-a-test") != nil {
		t.Error("a session without a known token")
	}
}
