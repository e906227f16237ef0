package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// Log says what is logged, and how. The program's parser supplies the defaults,
// see [LogDefaults].
type Log struct {
	Level  string `name:"log-level" env:"LOG_LEVEL" default:"info" words:"debug,info,warn,error" help:"debug, info, warn or error; the log goes to standard error."`
	Format string `name:"log-format" env:"LOG_FORMAT" default:"auto" words:"auto,json,text" help:"auto (text on a terminal, otherwise json), json or text."`
}

// LogDefaults sets a program's defaults of [Log]. Variables of the parser would do so too: it
// looks for those in every text of every flag, a fifth of the time that a command's start takes.
func LogDefaults(level, format string) kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, flag := range k.Model.Flags {
			switch flag.Name {
			case "log-level":
				flag.Default = level
			case "log-format":
				flag.Default = format
			}
		}
		return nil
	})
}

// Logger returns a logger to w, whose lines have one component ([Admin], or that of the last
// With), and its level, which may be changed at any time. The error
// names every fault with the variable to change; the logger then keeps to the defaults.
func (l Log) Logger(w io.Writer) (*slog.Logger, *slog.LevelVar, error) {
	var faults []error
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level.Set(slog.LevelInfo)
		faults = append(faults, fmt.Errorf("LOG_LEVEL is %q: it must be debug, info, warn or error", l.Level))
	}
	options := slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	format := cmp.Or(l.Format, "auto")
	if format != "auto" && format != "json" && format != "text" {
		faults = append(faults, fmt.Errorf("LOG_FORMAT is %q: it must be auto, json or text", l.Format))
	}
	var handler slog.Handler
	switch out := Escaped(w); {
	case format != "json" && isTerminal(w):
		handler = newTerminalHandler(out, options)
	case format == "text":
		handler = slog.NewTextHandler(out, &options)
	default:
		handler = slog.NewJSONHandler(out, &options)
	}
	return slog.New(withComponent(handler)), level, errors.Join(faults...)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// readable writes a duration as people do, "5s" or "41ms", where JSON would have a
// number of nanoseconds. Numbers that carry their unit in their key stay numbers.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(rounded(a.Value.Duration()).String())
	}
	return a
}

// rounded leaves three digits of a duration, and more where those are whole seconds.
func rounded(d time.Duration) time.Duration {
	step := time.Duration(1)
	for step < time.Second && (d/step).Abs() >= 1000 {
		step *= 10
	}
	return d.Round(step)
}
