// Package sample generates a small shop and the sessions of its visitors: search,
// look around, click, sometimes buy, in bursts with pauses, as people do. The
// same seed gives the same events, on every machine.
package sample

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"keyfold/engine/profile"
)

// Config says what to generate.
type Config struct {
	Sessions int
	Users    int // visitors the sessions are spread over
	// Skew is the exponent of a Zipf distribution of the visitors, above 1: few
	// come often. 0 spreads the sessions evenly.
	Skew float64
	Seed uint64
	End  time.Time     // no event is later
	Span time.Duration // from the first session to End
	// Repeats is the share of events that are published a second time, as a
	// producer does after a lost answer.
	Repeats float64
}

// DefaultConfig returns a week of a small shop, up to this morning.
func DefaultConfig(sessions int) Config {
	return Config{
		Sessions: sessions,
		Users:    max(1, sessions/4),
		Skew:     1.3,
		Seed:     1,
		// The same all day, so that a second run brings the same events.
		End:     time.Now().UTC().Truncate(24 * time.Hour),
		Span:    7 * 24 * time.Hour,
		Repeats: 0.01,
	}
}

// message is an event in the wire format.
type message struct {
	UserID       int32             `json:"user_id"`
	EventType    string            `json:"event_type"`
	SearchPhrase *string           `json:"search_phrase"`
	ProductID    *int32            `json:"product_id"`
	OccurredAt   string            `json:"occurred_at"`
	Metadata     map[string]string `json:"metadata"`
	MessageID    string            `json:"message_id"`
	Version      string            `json:"version"`

	at time.Time
}

// Events returns the sessions' events as message bodies, ordered by
// occurred_at.
func Events(c Config) [][]byte {
	r := rand.New(rand.NewPCG(c.Seed, 0x6b6579666f6c64))
	visitor := func() int32 { return r.Int32N(int32(c.Users)) + 1 }
	if c.Skew > 0 {
		zipf := rand.NewZipf(r, c.Skew, 8, uint64(c.Users-1))
		visitor = func() int32 { return int32(zipf.Uint64()) + 1 }
	}
	var messages []message
	for range c.Sessions {
		at := c.End.Add(-time.Duration(r.Int64N(int64(c.Span))) - 10*time.Minute)
		messages = append(messages, session(r, visitor(), at)...)
	}
	for _, m := range messages {
		if r.Float64() < c.Repeats {
			messages = append(messages, m)
		}
	}
	slices.SortStableFunc(messages, func(a, b message) int { return a.at.Compare(b.at) })
	bodies := make([][]byte, len(messages))
	for i := range messages {
		bodies[i], _ = json.Marshal(messages[i]) // strings and ints cannot fail
	}
	return bodies
}

// session is one visit: a search or two in a department the visitor likes, and
// what came of it.
func session(r *rand.Rand, user int32, at time.Time) []message {
	v := visit{r: r, user: user, at: at, device: devices[r.IntN(len(devices))]}
	likes := rand.New(rand.NewPCG(uint64(user), 7)) // a visitor keeps the taste
	favourites := likes.Perm(len(departments))[:2]
	for range 1 + r.IntN(2) {
		d := favourites[0]
		if r.IntN(4) == 0 {
			d = favourites[1]
		}
		v.browse(d)
	}
	return v.messages
}

type visit struct {
	r        *rand.Rand
	user     int32
	at       time.Time
	device   string
	messages []message
}

func (v *visit) browse(department int) {
	thing := v.r.IntN(len(departments[department].things))
	if v.r.IntN(3) > 0 {
		v.search(phrase(v.r, department, thing))
	}
	for range 1 + v.r.IntN(5) {
		id := productID(department, thing, v.r.IntN(len(qualities)))
		v.product(profile.ProductClick, id)
		v.product(profile.ProductView, id)
		if v.r.IntN(9) == 0 {
			v.product(profile.ProductPurchase, id)
		}
		if v.r.IntN(3) == 0 {
			thing = v.r.IntN(len(departments[department].things))
		}
	}
	v.at = v.at.Add(time.Duration(5+v.r.IntN(60)) * time.Second)
}

func (v *visit) search(phrase string) {
	v.add(profile.Search, message{SearchPhrase: &phrase}, phrase)
}

func (v *visit) product(t profile.EventType, id int32) {
	v.add(t, message{ProductID: &id}, decimal(id))
}

func (v *visit) add(t profile.EventType, m message, reference string) {
	// Most steps follow within a window, some after a longer look.
	v.at = v.at.Add(time.Duration(80+v.r.IntN(2500)) * time.Millisecond)
	if v.r.IntN(6) == 0 {
		v.at = v.at.Add(time.Duration(5+v.r.IntN(40)) * time.Second)
	}
	m.at = v.at.UTC().Truncate(time.Millisecond)
	m.UserID, m.EventType, m.Version = v.user, t.String(), "1.0"
	m.OccurredAt = m.at.Format("2006-01-02T15:04:05.000-07:00")
	m.Metadata = map[string]string{"device": v.device}
	m.MessageID = profile.MessageID(v.user, t, reference, m.OccurredAt)
	v.messages = append(v.messages, m)
}
