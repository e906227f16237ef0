package rabbit

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"keyfold/engine/cure"
)

// Names are all names the broker knows keyfold's things by.
type Names struct {
	Exchange    string   // topic exchange events are published to
	Queue       string   // the worker's queue
	Bindings    []string // patterns that bind the queue to the exchange
	DeadLetters string   // queue of what was given up; "": keyfold only publishes to Queue
	Slots       string   // direct exchange events are published to by slot; "": the application has no partitions

	// What logs and errors name as a cure: see [Names.SetupCommand] and [Names.ShowCommand].
	Setup, Show cure.Name
}

// RetryQueue returns the name of the queue that gives messages back after a
// delay. The delay is part of it, so that a changed setting meets new queues
// and not old ones with other arguments.
func (n Names) RetryQueue(delay time.Duration) string {
	return n.Queue + ".retry." + strconv.FormatInt(delay.Milliseconds(), 10)
}

// Headers of keyfold's own.
const (
	// HeaderFirstSeen is when an event was last known not to be folded, in Unix
	// milliseconds: on retries, replays, backfills and rows that were published
	// before. See [profile.Delivery].
	HeaderFirstSeen = "keyfold-first-seen"
	// HeaderAttempts is how many attempts an event has behind it.
	HeaderAttempts = "keyfold-attempts"
	// HeaderErrors is what the attempts failed with: a JSON array of objects
	// with "at", in Unix milliseconds, and "error".
	HeaderErrors = "keyfold-errors"
	// HeaderExchange is the exchange a retried event was first published to.
	HeaderExchange = "keyfold-exchange"
	// HeaderReason and HeaderFirstExchange are a dead letter's reason and the
	// exchange its event was first published to.
	HeaderReason        = "x-first-death-reason"
	HeaderFirstExchange = "x-first-death-exchange"
)

// Headers of the broker's.
const (
	// HeaderDeath has a record for each queue that gave the message up, the latest first.
	HeaderDeath      = "x-death"
	HeaderDeliveries = "x-delivery-count" // by a quorum queue, before this one
)

// IsBrokerHeader reports whether a header holds for a delivered message and not
// for a copy of it: the broker's own marks of dead-lettering, which brokers from
// 4.0 on ignore in what a client publishes, while older ones would go on counting;
// how often it was delivered; and further addresses, which got theirs.
func IsBrokerHeader(name string) bool {
	switch name {
	case HeaderDeath, "x-first-death-queue", "x-last-death-reason", "x-last-death-queue", "x-last-death-exchange",
		HeaderDeliveries, "x-acquired-count", "CC", "BCC":
		return true
	default:
		return false
	}
}

// Identity is what connections, consumers and dead letters are named after.
type Identity struct {
	Role    string // "worker", "relay", ...
	Host    string
	PID     int
	Version string // of the program; "" leaves it out
}

// ThisProcess returns the identity of the running process in a role, without the
// version, which the program knows.
func ThisProcess(role string) Identity {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Identity{Role: role, Host: host, PID: os.Getpid()}
}

// Connection returns the name operators see in the broker's list.
func (i Identity) Connection(purpose string) string {
	return strings.TrimSuffix(fmt.Sprintf("keyfold %s %s %s:%d %s", i.Role, purpose, i.Host, i.PID, i.Version), " ")
}

// MaxShortString is the protocol's limit of a property and of a tag, in bytes.
const MaxShortString = 255

// Tag returns the tag of the n-th consumer on a channel of a generation.
func (i Identity) Tag(generation uint64, channel, n int) string {
	end := fmt.Sprintf(":%d %s %d.%d.%d", i.PID, i.Version, generation, channel, n)
	start := "keyfold " + i.Role + " " + i.Host
	return start[:max(0, min(len(start), MaxShortString-len(end)))] + end[:min(len(end), MaxShortString)]
}
