package settings

import (
	stdlog "log"
	"log/slog"
	"regexp"
	"strings"

	"keyfold/engine/terse"
)

// BridgeLibraries has what libraries print through Go's default loggers logged as lines of log,
// those that are alike once a minute.
func BridgeLibraries(log *slog.Logger) {
	slog.SetDefault(log)
	stdlog.SetFlags(0)
	stdlog.SetOutput(&libraryLines{log: log})
}

// libraryLines takes a line with each Write.
type libraryLines struct {
	log   *slog.Logger
	alike terse.Repeats
}

var digits = regexp.MustCompile(`[0-9]+`)

func (l *libraryLines) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	hint := "if it goes on, check that the servers and the network of this process are well"
	if strings.Contains(text, "too many open files") {
		hint = "raise the limit of open files (LimitNOFILE of systemd, ulimit -n), and see which clients hold so many connections"
	}
	words := strings.Fields(digits.ReplaceAllString(text, ""))
	l.alike.Add(strings.Join(words[:min(3, len(words))], " "), func(n int) {
		attrs := []any{slog.String("reason", text), slog.String("hint", hint)}
		if n > 1 {
			attrs = append(attrs, slog.Int("count", n))
		}
		l.log.Warn("a library reports a fault", attrs...)
	})
	return len(line), nil
}
