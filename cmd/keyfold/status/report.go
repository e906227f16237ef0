package status

import (
	"time"

	"keyfold/cmd/keyfold/reach"
	"keyfold/cmd/keyfold/streams"
)

// Report is all that one look has found.
type Report struct {
	At        time.Time      `json:"at"`
	Servers   []reach.Answer `json:"servers"`
	Queues    []Queue        `json:"queues"`
	Workers   *int           `json:"workers_at_broker,omitempty"` // connections of workers; nil: not known
	Outbox    *Outbox        `json:"outbox,omitempty"`            // nil: there is none, or it was not read
	Streams   []streams.Row  `json:"streams,omitempty"`           // nil: there are none, or they were not read
	Processes []Process      `json:"processes"`
	Problems  []Problem      `json:"problems"` // what needs a person
	Notes     []string       `json:"notes"`    // what could not be seen
}

// What a queue holds.
const (
	events      = "events"
	delayed     = "delayed"
	deadLetters = "dead letters"
	dispatches  = "dispatches"
)

// Queue is one queue of the broker.
type Queue struct {
	Name           string   `json:"queue"`
	Of             string   `json:"of"`    // profiles or notifications
	Holds          string   `json:"holds"` // events, delayed, dead letters or dispatches
	Missing        bool     `json:"missing,omitempty"`
	Ready          int      `json:"ready"`                    // messages
	Unacknowledged *int     `json:"unacknowledged,omitempty"` // messages; nil: not known
	Consumers      int      `json:"consumers"`
	OldestSeconds  *float64 `json:"oldest_seconds,omitempty"` // since the first ready message's timestamp; nil: not known

	setup string // the command that declares it
}

// Outbox is what waits in DATABASE_URL.
type Outbox struct {
	Unsent        int64   `json:"unsent"` // rows, counted up to a million, as all others
	OldestSeconds float64 `json:"oldest_seconds"`
	SetAside      int64   `json:"set_aside"`
	Backfill      int64   `json:"backfill"`
}

// Process is what a process says of itself on its admin endpoint.
type Process struct {
	Address string   `json:"address"`
	Error   string   `json:"error,omitempty"` // it did not answer
	Roles   []string `json:"roles"`
	Version string   `json:"version"`
	Ready   bool     `json:"ready"`
	Reason  string   `json:"reason,omitempty"` // why it is not ready
	Slow    bool     `json:"slow,omitempty"`   // it listens, and gave no answer in time
	Remarks []string `json:"remarks"`          // what it says although it is ready
	InHand  int64    `json:"in_hand"`          // messages received and not settled
	Open    []string `json:"open_breakers"`    // dependencies
	// Lag99 is how many seconds 99 in 100 events took at most until they were in their
	// profiles: since the look before, and at the first look since the process's start.
	Lag99 *float64 `json:"event_to_profile_p99_seconds,omitempty"` // nil: there was none
	// ShortHalfLife is a worker's, in seconds, of the profiles' second vector.
	ShortHalfLife *float64 `json:"short_half_life_seconds,omitempty"` // nil: it is no worker

	figures map[string]float64
}

// Problem is something that needs a person.
type Problem struct {
	About   string `json:"about"`
	Text    string `json:"problem"`
	Cure    string `json:"cure,omitempty"` // "": the text has it
	Runbook string `json:"runbook,omitempty"`
}
