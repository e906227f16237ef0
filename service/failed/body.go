package failed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"keyfold/internal/cli"
)

// Pretty is the body for people: JSON is indented; what is none is shown as text where it can be,
// and as base64 otherwise.
func (l *Letter) Pretty() string {
	var indented bytes.Buffer
	if json.Indent(&indented, l.Body, "  ", "  ") == nil {
		var lines []string
		for line := range strings.Lines(indented.String()) {
			lines = append(lines, cli.Printable(strings.TrimRight(line, "\r\n")))
		}
		return "  " + strings.Join(lines, "\n")
	}
	if text := string(l.Body); text == strings.ToValidUTF8(text, "") && cli.Printable(text) == text {
		return "  " + text
	}
	return "  base64: " + base64.StdEncoding.EncodeToString(l.Body)
}
