// Package workload makes the notifications of benchmarks and soaks, receives what is
// dispatched, and holds what a run leaves in PostgreSQL against the laws.
//
//	traffic.go   events, from the templates of the sample shop's week
//	senders.go   the senders' side of the dispatch queues
//	laws.go      records, keys, states and dispatches against the oracle
//	merged.go    which records were written before two users were merged
//	figures.go   what PostgreSQL and the kernel say of a run
package workload

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/source/sample/notifications"
)

// Config says what to make.
type Config struct {
	Seed  uint64
	Users int
	Skew  float64            // exponent of a Zipf distribution of the users, above 1; 0: all alike
	Types []notify.EventType // of the events; nil: all
	Week  int                // users of the sample week that the texts are of, which takes time to make; 0: all 500
	// Expires returns after what time an event of a type expires, 0 for never; nil:
	// after the time that its service sets.
	Expires func(*rand.Rand, notify.EventType) time.Duration
}

// Traffic makes events that happen now: the texts, types and services of the sample
// week's events, in another order and for other users. It serves one goroutine.
type Traffic struct {
	config    Config
	templates []notifications.Post
	random    *rand.Rand
	zipf      *rand.Zipf
}

// New returns the traffic of a seed: the same events, but for their times, each time.
func New(c Config) (*Traffic, error) {
	week := notifications.DefaultConfig()
	week.Start, week.Seed = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), c.Seed+1
	if c.Week > 0 {
		week.Users = c.Week
	}
	t := &Traffic{config: c, random: rand.New(rand.NewPCG(c.Seed, 0x6e6f74696365))}
	for _, e := range notifications.Generate(week).Events {
		if len(c.Types) == 0 || slices.Contains(c.Types, e.Type) {
			t.templates = append(t.templates, e.Post)
		}
	}
	if c.Skew > 0 {
		t.zipf = rand.NewZipf(t.random, c.Skew, 8, uint64(c.Users-1))
	}
	return t, nil
}

// Next returns another event, which happens now.
func (t *Traffic) Next(now time.Time) (*notify.Notification, error) {
	p := t.templates[t.random.IntN(len(t.templates))]
	p.ID, p.User = notifications.NewID(t.random), t.user()
	if t.config.Expires != nil {
		p.Expires = t.config.Expires(t.random, p.Type)
	}
	at := engine.MillisOf(now)
	return notify.Parse(p.BodyAt(at), at)
}

func (t *Traffic) user() string {
	if t.zipf != nil {
		return strconv.FormatUint(t.zipf.Uint64()+1, 10)
	}
	return strconv.Itoa(t.random.IntN(t.config.Users) + 1)
}
