package tracing

import (
	"log/slog"

	"github.com/go-logr/logr"
)

// libraryLog logs what the library says of the variables OTEL_*. It leaves out the errors
// and the values, which quote headers and addresses with the secrets that they hold.
type libraryLog struct{ log *slog.Logger }

func (libraryLog) Init(logr.RuntimeInfo) {}

func (libraryLog) Enabled(int) bool { return false }

func (libraryLog) Info(int, string, ...any) {}

func (l libraryLog) Error(_ error, what string, _ ...any) {
	l.log.Warn("a setting of OpenTelemetry is not used", slog.String("reason", what),
		slog.String("hint", "correct the variable OTEL_* that this is about: %-encode what an address or a header holds"))
}

func (l libraryLog) WithValues(...any) logr.LogSink { return l }

func (l libraryLog) WithName(string) logr.LogSink { return l }
