package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/profile/recommend"
	"keyfold/source/httpapi"
)

// print reports a run.
func (s *summary) print(a *app, c *runCmd) error {
	return a.Emit(s, func(w *cli.Text) { s.text(w, a, c) })
}

func (s *summary) text(w *cli.Text, a *app, c *runCmd) {
	total := int64(s.Events) + s.Recovered
	seen := s.Duplicate > 0 && s.Duplicate+s.Dead == total
	switch holds := a.data + " holds " + cli.Count(s.Users, "profile"); {
	case seen && total == 1:
		w.Line("the event was read by an earlier run: nothing to do. %s.", holds)
	case seen && s.Dead == 0:
		w.Line("all %s were read by an earlier run: nothing to do. %s.", cli.Count(total, "event"), holds)
	case seen:
		w.Line("all %s but the dead ones were read by an earlier run: nothing to do. %s.", cli.Count(total, "event"), holds)
	default:
		w.Line("%s became %s in %.1f s.", cli.Count(total, "event"), cli.Count(s.Users, "profile"), s.Seconds)
	}
	w.Line("")
	w.Row("events", int64(s.Events), "read")
	if s.Recovered > 0 {
		w.Row("recovered", s.Recovered, "left over from a run that was stopped")
	}
	w.Row("folded", s.Folded, "into their users' profiles")
	w.Row("duplicate", s.Duplicate, "message ids seen before: folded once")
	w.Row("skipped", s.Skipped, reasons(s.SkippedBy))
	w.Row("dead", s.Dead, reasons(s.DeadBy))
	printFirstDead(w, a, s)
	if s.Pending > 0 {
		w.Row("pending", s.Pending, "not settled yet: the next run takes them up")
	}
	if !seen {
		w.Row("batches", s.Batches, fmt.Sprintf("one user's window each, %.1f events a batch", ratio(s.batched, s.Batches)))
		w.Row("writes", s.Writes, fmt.Sprintf("%s saved against one write per event (%.0f %%)",
			cli.Number(s.Folded-s.Writes), 100*ratio(s.Folded-s.Writes, s.Folded)))
	}
	s.printMissing(w, a)
	if s.example != nil {
		w.Line("")
		s.example.Print(w)
		if s.recommended != nil && len(s.recommended.Products) > 0 {
			w.Line("")
			w.Line("recommended to user %d (cosine), and the shares of it by what the user did", s.recommended.UserID)
			recommend.PrintProducts(w, s.recommended)
		}
		if s.Pending == 0 && a.ctx.Err() == nil {
			s.next(w, a, c)
		}
	}
}

// printMissing says how skipped events are folded after all.
func (s *summary) printMissing(w *cli.Text, a *app) {
	if s.Missing == 0 {
		return
	}
	w.Line("")
	w.Line("%s skipped because the product was unknown. Import the products and fold them with one command:", cli.Count(s.Missing, "stored event"))
	w.Line("  %s rebuild --products PRODUCTS.ndjson", a.command())
}

// printServed reports what came by HTTP, where anything did.
func (s *summary) printServed(a *app) error {
	return a.Emit(s, func(w *cli.Text) {
		if line := s.line(); line != "" {
			w.Line("served for %.1f s: %s", s.Seconds, line)
			printFirstDead(w, a, s)
			if s.Pending > 0 {
				w.Line("%s not settled yet: the next run takes them up", cli.Count(s.Pending, "event"))
			}
			s.printMissing(w, a)
		}
	})
}

// line says in one line what happened, "" where nothing did.
func (s *summary) line() string {
	var parts []string
	add := func(count int64, text string) {
		if count > 0 {
			parts = append(parts, text)
		}
	}
	add(int64(s.Events), cli.Count(int64(s.Events), "event")+" in")
	add(s.Recovered, cli.Number(s.Recovered)+" recovered")
	add(s.Duplicate, cli.Count(s.Duplicate, "duplicate"))
	add(s.Folded, cli.Number(s.Folded)+" folded")
	add(s.Skipped, cli.Number(s.Skipped)+" skipped ("+reasons(s.SkippedBy)+")")
	add(s.Dead, cli.Number(s.Dead)+" dead ("+reasons(s.DeadBy)+")")
	add(s.Writes, cli.Count(s.Writes, "profile")+" written")
	return strings.Join(parts, ", ")
}

// next says what to try next, with this user's own ids. A program that goes on to
// serve leaves out what a second one on the folder could not do.
func (s *summary) next(w *cli.Text, a *app, c *runCmd) {
	program := a.command()
	user := s.example.Profile.UserID
	w.Line("")
	w.Line("Try next:")
	w.Line("  %s user show %d", program, user)
	w.Line("  %s recommend %d --exclude bought", program, user)
	w.Line("  %s user export profiles.ndjson", program)
	if c.Exit {
		w.Line("  %s serve%s        and in a browser http://%s%s/users/%d, or from another terminal:", program, c.sameAddr(), c.Addr, pagesPath, user)
	} else {
		w.Line("  http://%s%s/users/%d in a browser: watch it learn", c.Addr, pagesPath, user)
	}
	w.Line("  curl 'http://%s/v1/users/%d/recommendations?k=5&explain=true'", c.Addr, user)
	w.Line(`  curl -H 'Content-Type: application/json' http://%s/v1/events -d '{"user_id":%d,"event_type":"search","search_phrase":"coffee","occurred_at":"%s"}'`,
		c.Addr, user, time.Now().UTC().Format(time.RFC3339))
	if c.Exit {
		w.Line("  %s --events YOUR.ndjson --products PRODUCTS.ndjson   (with --data OTHER-FOLDER to start afresh)", program)
	}
}

// sameAddr is the flag that lets another command serve at the same address.
func (c *runCmd) sameAddr() string {
	if c.Addr == httpapi.DefaultConfig().Addr {
		return ""
	}
	return " --http-addr " + c.Addr
}

// command is how this program is called for the same profiles.
func (a *app) command() string {
	program := "keyfold-lite"
	if strings.Contains(os.Args[0], "go-build") {
		program = "go run ./cmd/keyfold-lite"
	}
	if a.data != "keyfold-data" {
		program += " --data " + a.data
	}
	laws, usual := a.config.Processor, profile.DefaultConfig()
	if laws.History != usual.History {
		program += " --history " + string(laws.History)
	}
	if laws.Dimensions != usual.Dimensions {
		program += fmt.Sprintf(" --dimensions %d", laws.Dimensions)
	}
	return program
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
