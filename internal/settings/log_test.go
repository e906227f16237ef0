package settings

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// Durations are text in JSON logs; numbers that carry their unit stay numbers.
func TestDurationsInLogs(t *testing.T) {
	var out strings.Builder
	log, _, err := Log{Level: "debug", Format: "json"}.Logger(&out)
	must.OK(t, err)
	log.Debug("m", slog.Duration("window", 5*time.Second), slog.Int64("duration_ms", 12), slog.Int("held", 3),
		slog.Group("of", slog.Any("in", 1500*time.Millisecond), slog.Duration("retry_in", 336986662)))
	var line struct {
		Window   any            `json:"window"`
		Millis   any            `json:"duration_ms"`
		Held     any            `json:"held"`
		Of       map[string]any `json:"of"`
		Time     time.Time      `json:"time"`
		Message  string         `json:"msg"`
		LogLevel string         `json:"level"`
	}
	must.OK(t, json.Unmarshal([]byte(out.String()), &line))
	if line.Window != "5s" || line.Of["in"] != "1.5s" || line.Of["retry_in"] != "337ms" || line.Millis != 12.0 || line.Held != 3.0 ||
		line.Message != "m" || line.LogLevel != "DEBUG" || line.Time.IsZero() {
		t.Errorf("%s", out.String())
	}
}

func TestRoundedDurations(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 999: 999, 1234: 1230, 336986662: 337 * time.Millisecond, 1999 * time.Millisecond: 2 * time.Second, -1234: -1230,
		3723*time.Second + 400*time.Millisecond: 3723 * time.Second,
	} {
		if got := rounded(d); got != want {
			t.Errorf("%v becomes %v, want %v", d, got, want)
		}
	}
}

func TestLogFaults(t *testing.T) {
	var out strings.Builder
	log, _, err := Log{Level: "loud", Format: "xml"}.Logger(&out)
	if err == nil || !strings.Contains(err.Error(), `LOG_LEVEL is "loud"`) || !strings.Contains(err.Error(), `LOG_FORMAT is "xml"`) {
		t.Errorf("%v", err)
	}
	log.Info("still there")
	if !strings.Contains(out.String(), "still there") {
		t.Errorf("%q", out.String())
	}
	log, _, err = Log{Level: "ERROR", Format: "text"}.Logger(&out)
	must.OK(t, err)
	out.Reset()
	log.Warn("not told")
	log.Error("told", slog.Duration("in", time.Minute))
	if strings.Contains(out.String(), "not told") || !strings.Contains(out.String(), "in=1m0s") {
		t.Errorf("%q", out.String())
	}
}

// A line has one component, that of the last With, also behind other attributes.
//
// Promise(security/log-lines)
func TestLinesHaveOneComponent(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out strings.Builder
		log, _, err := Log{Level: "info", Format: format}.Logger(&out)
		must.OK(t, err)
		part := log.With("component", "worker", "queue", "q")
		part.With("component", "rabbit").Info("inner", slog.Int("attempt", 1))
		part.Info("outer")
		log.Info("whole")
		for line := range strings.Lines(out.String()) {
			name, queue := "admin", !strings.Contains(line, "whole")
			if strings.Contains(line, "inner") {
				name = "rabbit"
			} else if strings.Contains(line, "outer") {
				name = "worker"
			}
			if strings.Count(line, "component") != 1 || !strings.Contains(strings.ReplaceAll(line, `"`, ""), name) || queue != strings.Contains(line, "queue") {
				t.Errorf("%s", line)
			}
		}
	}
}
