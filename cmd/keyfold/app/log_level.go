package app

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// maxLevel bounds the body that names a level, in bytes.
const maxLevel = 16

// serveLogLevel tells the log's level, and changes it: a fault is looked at in a process
// that has it, without a restart.
func (a *App) serveLogLevel(rw http.ResponseWriter, r *http.Request) {
	level := func() string { return strings.ToLower(a.LogLevel.Level().String()) }
	switch r.Method {
	case http.MethodGet:
	case http.MethodPut:
		body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxLevel))
		var next slog.Level
		if err == nil {
			err = next.UnmarshalText([]byte(strings.TrimSpace(string(body))))
		}
		if err != nil {
			http.Error(rw, "the body must be debug, info, warn or error", http.StatusBadRequest)
			return
		}
		before := level()
		a.LogLevel.Set(next)
		a.Log.Warn("log level changed", slog.String("from", before), slog.String("to", level()),
			slog.String("hint", "it lasts until the process ends; LOG_LEVEL is that of the next start"))
	default:
		rw.Header().Set("Allow", "GET, PUT")
		http.Error(rw, "GET tells the level, PUT changes it", http.StatusMethodNotAllowed)
		return
	}
	fmt.Fprintln(rw, level())
}
