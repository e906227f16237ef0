package settings

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// terminalHandler writes lines for a person: the time of day, the level and the message
// in columns, then the attributes as key=value.
type terminalHandler struct {
	attributes slog.Handler // writes to line
	*terminalLine
}

// terminalLine is what the handlers of one terminal share.
type terminalLine struct {
	mu   sync.Mutex
	line bytes.Buffer
	w    io.Writer
}

func newTerminalHandler(w io.Writer, options slog.HandlerOptions) slog.Handler {
	options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return readable(groups, a)
	}
	t := &terminalLine{w: w}
	return terminalHandler{slog.NewTextHandler(&t.line, &options), t}
}

func (h terminalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.attributes.Enabled(ctx, level)
}

func (h terminalHandler) Handle(ctx context.Context, r slog.Record) error {
	message := r.Message
	if strings.ContainsFunc(message, func(c rune) bool { return !strconv.IsPrint(c) }) {
		message = strconv.Quote(message) // a terminal acts on control characters
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line.Reset()
	fmt.Fprintf(&h.line, "%s %-5s %s  ", r.Time.Format(time.TimeOnly), r.Level, message)
	if err := h.attributes.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.w.Write(append(bytes.TrimRight(h.line.Bytes(), " \n"), '\n'))
	return err
}

func (h terminalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return terminalHandler{h.attributes.WithAttrs(attrs), h.terminalLine}
}

func (h terminalHandler) WithGroup(name string) slog.Handler {
	return terminalHandler{h.attributes.WithGroup(name), h.terminalLine}
}
