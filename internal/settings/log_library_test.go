package settings

import (
	"encoding/json"
	stdlog "log"
	"log/slog"
	"os"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// What a library prints is a line of the program's own log, however many lines its text has;
// those that are alike are gathered.
//
// Promise(shutdown/open-files)
func TestLibrariesLogInTheProgramsForm(t *testing.T) {
	flags, before := stdlog.Flags(), slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(before)
		stdlog.SetOutput(os.Stderr)
		stdlog.SetFlags(flags)
	})
	var out strings.Builder
	log, _, err := Log{Level: "info", Format: "json"}.Logger(&out)
	must.OK(t, err)
	BridgeLibraries(log)
	for range 3 {
		stdlog.Print("http: Accept error: accept tcp 127.0.0.1:9090: accept4: too many open files; retrying in 5ms\nand a second line")
	}
	slog.Warn("of slog's default")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "LimitNOFILE") {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) || !strings.Contains(line, `"component"`) {
			t.Errorf("%s", line)
		}
	}
}
