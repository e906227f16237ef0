// Package workload makes the notifications of benchmarks and soaks, receives what is
// dispatched, and holds what a run leaves in PostgreSQL against the laws.
//
//	traffic.go   events, from the templates of the sample shop's week
//	senders.go   the senders' side of the dispatch queues
//	laws.go      records, keys, states and dispatches against the oracle
//	figures.go   what PostgreSQL and the kernel say of a run
package workload

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

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
	// Expires returns after what time an event of a type expires, 0 for never; nil:
	// after the time that its service sets.
	Expires func(*rand.Rand, notify.EventType) time.Duration
}

// Traffic makes events that happen now: the texts, types and services of the sample
// week's events, in another order and for other users. It serves one goroutine.
type Traffic struct {
	config    Config
	templates []wire
	random    *rand.Rand
	zipf      *rand.Zipf
	made      uint64
}

// wire is an event as services post it.
type wire struct {
	EventID   string          `json:"event_id"`
	UserID    string          `json:"user_id"`
	Type      string          `json:"event_type"`
	Title     string          `json:"title"`
	Message   string          `json:"message,omitempty"`
	Source    string          `json:"source"`
	Hint      string          `json:"priority_hint,omitempty"`
	Channels  []string        `json:"channel"`
	Timestamp string          `json:"timestamp"`
	ExpiresAt string          `json:"expires_at,omitempty"`
	DedupeKey string          `json:"dedupe_key,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`

	kind    notify.EventType
	expires time.Duration // after the timestamp; 0: never
}

// New returns the traffic of a seed: the same events, but for their times, each time.
func New(c Config) (*Traffic, error) {
	week := notifications.DefaultConfig()
	week.Start, week.Retries, week.Seed = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), 0, c.Seed+1
	t := &Traffic{config: c, random: rand.New(rand.NewPCG(c.Seed, 0x6e6f74696365))}
	for _, e := range notifications.Generate(week, notifications.Sample(week)).Events {
		if len(c.Types) > 0 && !slices.Contains(c.Types, e.Type) {
			continue
		}
		w := wire{kind: e.Type}
		if err := json.Unmarshal(e.Body, &w); err != nil {
			return nil, fmt.Errorf("a sample event: %w", err)
		}
		if w.ExpiresAt != "" {
			until, err := time.Parse(time.RFC3339, w.ExpiresAt)
			if err != nil {
				return nil, fmt.Errorf("a sample event's expires_at: %w", err)
			}
			w.expires = until.Sub(e.At.Time())
		}
		t.templates = append(t.templates, w)
	}
	if c.Skew > 0 {
		t.zipf = rand.NewZipf(t.random, c.Skew, 8, uint64(c.Users-1))
	}
	return t, nil
}

// Next returns another event, which happens now.
func (t *Traffic) Next(now time.Time) (*notify.Notification, error) {
	w := t.templates[t.random.IntN(len(t.templates))]
	t.made++
	w.EventID, w.UserID, w.Timestamp = t.id().String(), t.user(), stamp(now)
	if t.config.Expires != nil {
		w.expires = t.config.Expires(t.random, w.kind)
	}
	if w.ExpiresAt = ""; w.expires > 0 {
		w.ExpiresAt = stamp(now.Add(w.expires))
	}
	body, err := json.Marshal(&w)
	if err != nil {
		return nil, err
	}
	return notify.Parse(body, engine.MillisOf(now))
}

func (t *Traffic) user() string {
	if t.zipf != nil {
		return strconv.FormatUint(t.zipf.Uint64()+1, 10)
	}
	return strconv.Itoa(t.random.IntN(t.config.Users) + 1)
}

// id draws a random event_id.
func (t *Traffic) id() (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], t.random.Uint64())
	binary.BigEndian.PutUint64(id[8:], t.random.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
