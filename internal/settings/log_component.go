package settings

import (
	"context"
	"log/slog"
)

// componentKey is the attribute that names the part of a program that wrote a line.
const componentKey = "component"

// Admin is the component of lines of which no other one is named: starts, stops,
// summaries, settings and what the commands of an operator say.
const Admin = "admin"

// componentHandler writes one component in a line, as its last attribute: that of the last
// With. A part hands its logger to parts of its own, which then name themselves.
type componentHandler struct {
	slog.Handler
	component slog.Attr
}

func withComponent(h slog.Handler) slog.Handler {
	return componentHandler{h, slog.String(componentKey, Admin)}
}

func (h componentHandler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(h.component)
	return h.Handler.Handle(ctx, r)
}

func (h componentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var others []slog.Attr
	for _, a := range attrs {
		if a.Key == componentKey {
			h.component = a
		} else {
			others = append(others, a)
		}
	}
	return componentHandler{h.Handler.WithAttrs(others), h.component}
}

func (h componentHandler) WithGroup(name string) slog.Handler {
	return componentHandler{h.Handler.WithGroup(name), h.component}
}
