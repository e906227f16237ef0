package settings

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"keyfold/internal/testserver/must"
)

// commanding are characters that a terminal obeys or that turn its lines around, most of
// which JSON lets pass.
const commanding = "\u009b31m \u007f \u202e \u2066 \u200f \u061c \u0085 \u2028 \u2029 \ufeff \U000e0041 \x1b[31m"

// A log line has no character that commands a terminal, in any format, and JSON says which
// there were.
//
// Promise(security/terminals)
func TestLogsCommandNoTerminal(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log, _, err := Log{Level: "info", Format: format}.Logger(&out)
		must.OK(t, err)
		log.Info("naïve 🙂 lamp", slog.String("id", commanding), slog.String("short", "\u007f"))
		expectTame(t, out.String())
		var line map[string]string
		if format != "json" {
			continue
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["id"] != commanding || line["msg"] != "naïve 🙂 lamp" {
			t.Errorf("read back it is %q, %v", line, err)
		}
		if !strings.Contains(out.String(), "naïve 🙂 lamp") {
			t.Errorf("what a terminal can show is escaped: %s", out.String())
		}
	}
}

func expectTame(t *testing.T, text string) {
	t.Helper()
	for _, r := range strings.TrimSuffix(text, "\n") {
		if !unicode.IsPrint(r) {
			t.Errorf("%U passes in %q", r, text)
		}
	}
}

// Bytes that are no text, which raw JSON may have, are replaced: one of them alone commands
// a terminal of 8-bit characters.
//
// Promise(security/terminals)
func TestEscapedReplacesBytesThatAreNoText(t *testing.T) {
	var out bytes.Buffer
	raw := "{\"a\":\"\x9b31m\"}\n"
	if n, err := Escaped(&out).Write([]byte(raw)); n != len(raw) || err != nil || out.String() != `{"a":"\ufffd31m"}`+"\n" {
		t.Errorf("%d bytes, %v: %q", n, err, out.String())
	}
}
