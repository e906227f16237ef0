package settings

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// On a terminal a line has the time of day, the level and the message in columns; no
// message or attribute reaches the terminal with a control character.
func TestTerminalLines(t *testing.T) {
	var out strings.Builder
	log := slog.New(newTerminalHandler(&out, slog.HandlerOptions{Level: slog.LevelInfo}))
	log.Debug("not told")
	log.Info("worker started", slog.Int("shards", 2), slog.Duration("window", 5*time.Second), slog.Duration("retry_in", 41447834), slog.Duration("took", 36020))
	log.With("a", 1).WithGroup("g").Error("failed", "time", "kept", "msg", "two\nlines \x1b[31m")
	log.Warn("bare")
	log.Warn("red \x1b[31m")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d INFO  worker started  shards=2 window=5s retry_in=41.4ms took=36µs
\d\d:\d\d:\d\d ERROR failed  a=1 g.time=kept g.msg="two\\nlines \\x1b\[31m"
\d\d:\d\d:\d\d WARN  bare
\d\d:\d\d:\d\d WARN  "red \\x1b\[31m"
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("%q", out.String())
	}
}

// Without a format it is JSON, unless a person reads it: a file is no terminal.
func TestDefaultFormat(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/log")
	must.OK(t, err)
	defer file.Close()
	for format, start := range map[string]string{"": "{", "auto": "{", "json": "{", "text": "time="} {
		must.OK(t, file.Truncate(0))
		log, _, err := Log{Level: "info", Format: format}.Logger(file)
		must.OK(t, err)
		log.Info("m")
		text, err := os.ReadFile(file.Name())
		if err != nil || !strings.HasPrefix(strings.TrimLeft(string(text), "\x00"), start) {
			t.Errorf("%q: %s %v", format, text, err)
		}
	}
}
