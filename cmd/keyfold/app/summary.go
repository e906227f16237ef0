package app

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// Figure is a number in the summaries of a service.
type Figure struct {
	Name string
	// Gauge: it is what there is now, and not a count since the start.
	Gauge bool
	// Read returns the number; below 0 it is not known.
	Read func() int64
}

// summaryInterval is the time between two summaries.
const summaryInterval = time.Minute

// summary logs what a service does.
type summary struct {
	log    *slog.Logger
	of     Service
	before map[string]int64 // counts at the last tick
}

// run logs each minute's figures until stop is closed, and then those of all the time.
func (s *summary) run(stop <-chan struct{}) {
	ticker := time.NewTicker(summaryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.minute()
		case <-stop:
			s.total()
			return
		}
	}
}

// minute logs what the service did since the last tick, where it did anything, events
// wait, or something is not as it should be.
func (s *summary) minute() {
	var attrs []slog.Attr
	fault, idle, counts := s.of.Ready(), true, map[string]int64{}
	for _, f := range s.of.Figures() {
		n := f.Read()
		if !f.Gauge {
			counts[f.Name] = n
			n -= s.before[f.Name]
		}
		if n >= 0 {
			attrs = append(attrs, slog.Int64(f.Name, n))
			idle = idle && n == 0
		}
	}
	s.before = counts
	if fault != nil {
		attrs = append(attrs, slog.Any("not_ready", fault))
		idle = false
	} else if notes := s.of.Notes(); len(notes) > 0 {
		attrs = append(attrs, slog.String("notes", strings.Join(notes, "; ")))
		idle = false
	}
	if !idle {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "the last minute", attrs...)
	}
}

// total logs what the service did in all. It reads no gauge: one may ask a server.
func (s *summary) total() {
	var attrs []slog.Attr
	for _, f := range s.of.Figures() {
		if !f.Gauge {
			attrs = append(attrs, slog.Int64(f.Name, f.Read()))
		}
	}
	if len(attrs) > 0 { // else it never got as far as starting
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "since the start", attrs...)
	}
}
