package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"keyfold/internal/report"
)

// windowsCmd reckons how many events a write has by the windows' settings: what a write costs
// is shared by its events.
type windowsCmd struct {
	Rate    rate     `default:"10000/s" help:"Events a second."`
	Users   []int    `default:"100000,1000000" help:"Active users."`
	Skew    float64  `default:"1.05" help:"Exponent of the Zipf distribution of the users, above 1; 0: all alike."`
	Windows []string `default:"5/15,15/45,30/90" help:"EMBEDDING_BATCH_WINDOW/EMBEDDING_BATCH_MAX_DELAY, seconds each."`
	Size    int      `default:"500" help:"EMBEDDING_BATCH_MAX_SIZE."`
	Span    int      `default:"300" help:"Seconds of traffic, after as many of the longest windows' delay."`
}

// Run reckons every combination.
func (c *windowsCmd) Run(ctx context.Context, r *report.Report) error {
	for _, users := range c.Users {
		for _, text := range c.Windows {
			var idle, most float64
			if n, err := fmt.Sscanf(strings.Replace(text, "/", " ", 1), "%g %g", &idle, &most); n != 2 || err != nil || !(0 < idle && idle <= most) {
				return fmt.Errorf("--windows has %q: it must be two numbers of seconds, such as 5/15", text)
			}
			events, writes, held := c.reckon(users, idle, most)
			if err := ctx.Err(); err != nil {
				return err
			}
			add := r.Of(fmt.Sprintf("%d users, windows of %s s", users, text))
			add("events of a write", "", events/writes)
			add("writes", "1/s", writes/float64(c.Span))
			add("held", "events", held)
		}
	}
	return nil
}

// openWindow is a user's.
type openWindow struct {
	first, last float64 // times of its events, in seconds
	items       int
}

// reckon plays events of users, each by chance, through windows as [shard] has them: one closes
// after its last event by idle, after its first by most, and with c.Size events. It returns
// the events and writes of the span, and how many events are held on average.
func (c *windowsCmd) reckon(users int, idle, most float64) (events, writes, held float64) {
	source := rand.New(rand.NewPCG(1, uint64(users)))
	next := func() uint64 { return source.Uint64N(uint64(users)) }
	if c.Skew > 1 {
		next = rand.NewZipf(source, c.Skew, 8, uint64(users-1)).Uint64
	}
	pause := c.Rate.pause.Seconds()
	open := make(map[uint64]openWindow, users/4)
	closed := func(w openWindow, at float64) {
		if at >= most {
			writes++
			held += float64(w.items) * (at - w.first) / 2
		}
	}
	end := func(w openWindow) float64 { return min(w.last+idle, w.first+most) }
	now := 0.0
	for ; now < most+float64(c.Span); now += pause {
		user := next()
		w, is := open[user]
		if is && end(w) <= now {
			closed(w, end(w))
			is = false
		}
		if !is {
			w = openWindow{first: now}
		}
		w.last, w.items = now, w.items+1
		if now >= most {
			events++
		}
		if w.items == c.Size {
			closed(w, now)
			delete(open, user)
			continue
		}
		open[user] = w
	}
	for _, w := range open { // of users that did not come again
		if end(w) <= now {
			closed(w, end(w))
		}
	}
	return events, writes, held / float64(c.Span)
}
