package app

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"
)

// The level of a running process is told and changed; what is no level changes nothing.
func TestLogLevel(t *testing.T) {
	var out bytes.Buffer
	log, level, err := settings.Log{Level: "info", Format: "json"}.Logger(&out)
	must.OK(t, err)
	a := &App{Log: log, LogLevel: level}
	for _, step := range []struct {
		method, body string
		code         int
		answer       string
		debug        bool
	}{
		{http.MethodGet, "", 200, "info\n", false},
		{http.MethodPut, "debug\n", 200, "debug\n", true},
		{http.MethodPut, "loud", 400, "the body must be debug, info, warn or error\n", true},
		{http.MethodPut, strings.Repeat("x", 100), 400, "the body must be debug, info, warn or error\n", true},
		{http.MethodDelete, "", 405, "GET tells the level, PUT changes it\n", true},
		{http.MethodPut, "ERROR", 200, "error\n", false},
	} {
		rw := httptest.NewRecorder()
		a.serveLogLevel(rw, httptest.NewRequest(step.method, "/log-level", strings.NewReader(step.body)))
		if rw.Code != step.code || rw.Body.String() != step.answer || log.Enabled(context.Background(), slog.LevelDebug) != step.debug {
			t.Errorf("%s %q: %d %q, level %s", step.method, step.body, rw.Code, rw.Body, level.Level())
		}
	}
	if n := strings.Count(out.String(), "log level changed"); n != 1 { // the second change is below the new level
		t.Errorf("%d lines of changes: %s", n, &out)
	}
}
