// Package status has what one look at an installation has found: how its servers, queues,
// outbox, streams and processes stand, and what needs a person. `keyfold status` prints it, and
// the dashboard shows it.
package status

import (
	"cmp"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/internal/cli"
)

// Report is all that one look has found.
type Report struct {
	At        time.Time `json:"at"`
	Servers   []Server  `json:"servers"`
	Queues    []Queue   `json:"queues"`
	Workers   *int      `json:"workers_at_broker,omitempty"` // connections of workers; nil: not known
	Outbox    *Outbox   `json:"outbox,omitempty"`            // nil: there is none, or it was not read
	Streams   []Stream  `json:"streams,omitempty"`           // nil: there are none, or they were not read
	Processes []Process `json:"processes"`
	Problems  []Problem `json:"problems"` // what needs a person
	Notes     []string  `json:"notes"`    // what could not be seen
}

// Add adds a problem with the page that its text names, else with this one.
func (r *Report) Add(about, text, runbook string) {
	text, section := causes.Cut(text)
	r.Problems = append(r.Problems, Problem{About: about, Text: text, Runbook: cmp.Or(section, runbook)})
}

// Away reports whether a server cannot be used: what follows from that need not be told.
func (r *Report) Away(server string) bool {
	for _, s := range r.Servers {
		if s.Server == server {
			return s.Error != ""
		}
	}
	return false
}

// ShortHalfLives lists the half-lives of the second vector that workers have, each once.
func (r *Report) ShortHalfLives() (all []string) {
	for _, p := range r.Processes {
		if p.ShortHalfLife == nil {
			continue
		}
		life := "none"
		if *p.ShortHalfLife > 0 {
			life = time.Duration(*p.ShortHalfLife * float64(time.Second)).String()
		}
		all = append(all, life)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Applications that queues belong to.
const (
	OfProfiles      = "profiles"
	OfNotifications = "notifications"
)

// What a queue holds.
const (
	Events      = "events"
	Delayed     = "delayed"
	DeadLetters = "dead letters"
	Dispatches  = "dispatches"
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

	Setup string `json:"-"` // the command that declares it
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

	Figures map[string]float64 `json:"-"` // its page of metrics
}

// Problem is something that needs a person.
type Problem struct {
	About   string `json:"about"`
	Text    string `json:"problem"`
	Cure    string `json:"cure,omitempty"` // "": the text has it
	Runbook string `json:"runbook,omitempty"`
}

// Names of servers.
const (
	RabbitMQ = "RabbitMQ"
	MongoDB  = "MongoDB"
	Ledger   = "PostgreSQL"
	SQL      = "SQL"
)

// Server is what became of asking a server.
type Server struct {
	Server  string `json:"server"`
	Address string `json:"address"` // "" where none is set; without secrets
	Used    bool   `json:"used"`
	Error   string `json:"error,omitempty"`
	Note    string `json:"-"`
}

// Print writes a line.
func (s *Server) Print(w *cli.Text) {
	switch {
	case !s.Used:
		w.Line("- %-13s  %s", s.Server, s.Note)
	case s.Error != "":
		w.Line("✗ %-13s  %s: %s", s.Server, s.Address, cli.Printable(s.Error))
	default:
		w.Line("✓ %-13s  %s%s", s.Server, s.Address, s.Note)
	}
}

// Stream says how far a stream is read.
type Stream struct {
	Stream   string        `json:"stream"`
	First    uint64        `json:"first"`
	End      uint64        `json:"end"`
	Oldest   engine.Millis `json:"oldest"`
	Position uint64        `json:"position"`
	Lag      uint64        `json:"lag_events"`
	Behind   float64       `json:"lag_seconds"`
	Rewinds  int64         `json:"rewinds"`
	Fault    string        `json:"fault,omitempty"`
}
