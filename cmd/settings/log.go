package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/alecthomas/kong"
)

// Log says what is logged, and how. The program's parser supplies the defaults,
// see [LogDefaults].
type Log struct {
	Level  string `name:"log-level" env:"LOG_LEVEL" default:"${log_level}" help:"debug, info, warn or error; the log goes to standard error."`
	Format string `name:"log-format" env:"LOG_FORMAT" default:"${log_format}" help:"json or text."`
}

// LogDefaults sets a program's defaults of [Log].
func LogDefaults(level, format string) kong.Vars {
	return kong.Vars{"log_level": level, "log_format": format}
}

// Logger returns a logger to w. The error names every fault with the variable to
// change; the logger then keeps to the defaults.
func (l Log) Logger(w io.Writer) (*slog.Logger, error) {
	var faults []error
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo
		faults = append(faults, fmt.Errorf("LOG_LEVEL is %q: it must be debug, info, warn or error", l.Level))
	}
	var handler slog.Handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable})
	switch l.Format {
	case "json":
	case "text":
		handler = slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	default:
		faults = append(faults, fmt.Errorf("LOG_FORMAT is %q: it must be json or text", l.Format))
	}
	return slog.New(handler), errors.Join(faults...)
}

// readable writes a duration as people do, "5s", where JSON would have a number
// of nanoseconds. Numbers that carry their unit in their key stay numbers.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
