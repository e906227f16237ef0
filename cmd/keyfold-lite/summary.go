package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"keyfold/cmd/cli"
	"keyfold/cmd/users"
	"keyfold/engine"
)

// summary is what a run amounts to. Every event read or recovered is in exactly
// one of folded, duplicate, skipped, dead and pending.
type summary struct {
	Events    int     `json:"events"` // read from the input or posted
	Recovered int64   `json:"recovered"`
	Folded    int64   `json:"folded"`
	Duplicate int64   `json:"duplicate"`
	Skipped   int64   `json:"skipped"`
	Dead      int64   `json:"dead"`
	Pending   int64   `json:"pending"`
	Users     int64   `json:"users"` // profiles in the store
	Batches   int64   `json:"batches"`
	Writes    int64   `json:"writes"`
	Seconds   float64 `json:"seconds"`

	SkippedBy map[string]int64 `json:"skipped_by,omitempty"`
	DeadBy    map[string]int64 `json:"dead_by,omitempty"`

	example *users.ProfileView
}

// summary adds up the run's figures.
func (n *runtime) summary(events int, took time.Duration) (*summary, error) {
	in := n.inbox.Stats()
	s := &summary{
		Events:    events,
		Recovered: in.Recovered,
		Folded:    in.Folded,
		Duplicate: in.Repeated + in.Duplicate,
		Skipped:   in.ProductMissing + in.UserErased,
		Seconds:   took.Round(time.Millisecond).Seconds(),
		SkippedBy: map[string]int64{},
		DeadBy:    in.Dead,
	}
	for outcome, count := range map[engine.Outcome]int64{
		engine.ProductMissing: in.ProductMissing, engine.UserErased: in.UserErased,
	} {
		if count > 0 {
			s.SkippedBy[outcome.String()] = count
		}
	}
	for _, count := range in.Dead {
		s.Dead += count
	}
	waiting := n.intake.report(s)
	for _, p := range n.done {
		s.Batches += p.Taste.Stats().Batches.Load()
		s.Writes += p.Taste.Stats().Writes.Load()
	}
	// The report is also due after a signal, when n.ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), n.config.Timeout)
	defer cancel()
	pending, err := n.inbox.Pending(ctx)
	if err != nil {
		return nil, err
	}
	s.Pending = int64(pending) + waiting
	if s.Users, err = n.file.CountProfiles(ctx); err != nil || s.Users == 0 || n.JSON {
		return s, err
	}
	busiest, err := n.file.BusiestUser(ctx)
	if err == nil {
		s.example, err = profileView(ctx, n.app, n.file.Reader, busiest, 5, 5)
	}
	return s, err
}

// report adds what came over HTTP, and returns how much of it is not in the inbox
// yet.
func (in *httpIngest) report(s *summary) (waiting int64) {
	if in == nil {
		return 0
	}
	fresh, repeated := in.store.Stats.Stored.Load(), in.store.Stats.Repeated.Load()
	s.Events += int(fresh + repeated)
	s.Duplicate += repeated
	s.Recovered += in.left
	return max(0, in.left+fresh-in.passed.Load())
}

func (s *summary) print(a *app) error {
	return a.Emit(s, func(w *cli.Text) { s.text(w, a) })
}

func (s *summary) text(w *cli.Text, a *app) {
	w.Line("%s events became %s profiles in %.1f s.", cli.Number(int64(s.Events)+s.Recovered), cli.Number(s.Users), s.Seconds)
	w.Line("")
	w.Row("events", int64(s.Events), "read")
	if s.Recovered > 0 {
		w.Row("recovered", s.Recovered, "left over from a run that was stopped")
	}
	w.Row("folded", s.Folded, "into their users' profiles")
	w.Row("duplicate", s.Duplicate, "message ids seen before: folded once")
	w.Row("skipped", s.Skipped, reasons(s.SkippedBy))
	w.Row("dead", s.Dead, reasons(s.DeadBy))
	if s.Pending > 0 {
		w.Row("pending", s.Pending, "not settled yet: the next run takes them up")
	}
	w.Row("batches", s.Batches, fmt.Sprintf("one user's window each, %.1f events a batch", ratio(s.Folded, s.Batches)))
	w.Row("writes", s.Writes, fmt.Sprintf("%s saved against one write per event (%.0f %%)",
		cli.Number(s.Folded-s.Writes), 100*ratio(s.Folded-s.Writes, s.Folded)))
	if s.example != nil {
		w.Line("")
		s.example.Print(w)
		if s.Pending == 0 && a.ctx.Err() == nil {
			s.next(w, a)
		}
	}
}

// next says what to try next, with this user's own ids.
func (s *summary) next(w *cli.Text, a *app) {
	program := "keyfold-lite"
	if strings.Contains(os.Args[0], "go-build") {
		program = "go run ./cmd/keyfold-lite"
	}
	program += a.same()
	user := s.example.Profile.UserID
	w.Line("")
	w.Line("Try next:")
	w.Line("  %s user show %d", program, user)
	w.Line("  %s user export profiles.ndjson", program)
	w.Line("  %s serve        and from another terminal:", program)
	w.Line(`  curl -H 'Content-Type: application/json' http://127.0.0.1:7080/v1/events -d '{"user_id":%d,"event_type":"search","search_phrase":"coffee","occurred_at":"%s"}'`,
		user, time.Now().UTC().Format(time.RFC3339))
	w.Line("  %s --events YOUR.ndjson --products PRODUCTS.ndjson   (with --data OTHER-FOLDER to start afresh)", program)
}

// same is the flags that let another command meet the same profiles.
func (a *app) same() (flags string) {
	if a.data != "keyfold-data" {
		flags += " --data " + a.data
	}
	laws, usual := a.config.Taste, engine.DefaultConfig()
	if laws.History != usual.History {
		flags += " --history " + string(laws.History)
	}
	if laws.Dimensions != usual.Dimensions {
		flags += fmt.Sprintf(" --dimensions %d", laws.Dimensions)
	}
	return flags
}

// reasons lists counts by reason, most frequent first.
func reasons(by map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = name + " " + cli.Number(by[name])
	}
	return strings.Join(names, ", ")
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
