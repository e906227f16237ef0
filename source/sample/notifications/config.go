package notifications

import "time"

// Config says what to generate. Shares are from 0 to 1.
type Config struct {
	Users    int // users 1 to Users get broadcasts; a log may have others
	Sessions int // of [Sample]
	Seed     uint64
	Start    time.Time // no event is earlier
	Span     time.Duration
	// Retries is the share of events that the producer posts again under the same
	// event_id, with the same bytes.
	Retries float64
	// Copies is the share of events that are posted again under a new event_id, with
	// the same texts.
	Copies float64
	// Reworded is the share of events of types with near duplicates that are posted
	// again in other words.
	Reworded float64
	// Unidentified is the share of users whose notifications have no order_id,
	// entity_id or thread_id in their metadata, as services of an older version send.
	Unidentified float64
	// Reach is the share of users who get a campaign.
	Reach float64
}

// DefaultConfig returns a week of 500 users, up to this morning in UTC. It is the same
// all day, so that a second run brings the same events.
func DefaultConfig() Config {
	const week = 7 * 24 * time.Hour
	return Config{
		Users:        500,
		Sessions:     2000,
		Seed:         1,
		Start:        time.Now().UTC().Truncate(24 * time.Hour).Add(-week),
		Span:         week,
		Retries:      0.1,
		Copies:       0.03,
		Reworded:     0.06,
		Unidentified: 0.02,
		Reach:        0.6,
	}
}
