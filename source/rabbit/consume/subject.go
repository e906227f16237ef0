package consume

import (
	"log/slog"
	"strconv"

	"keyfold/source/rabbit"
)

// Subject is what logs and dead letters name an event by. Each field is "" where it
// could not be read.
type Subject struct {
	ID   string
	User string
	Kind string
	// NumericUser: ids of users are numbers, and logged as such.
	NumericUser bool
}

// Describe reads the subject of a message from its body and its id. It never fails:
// what it cannot read it leaves empty.
type Describe func(*rabbit.Original) Subject

// LogUser returns the user for a log: 0 for a number that could not be read.
func (s Subject) LogUser() slog.Attr {
	if !s.NumericUser {
		return slog.String("user_id", s.User)
	}
	n, _ := strconv.ParseInt(s.User, 10, 64)
	return slog.Int64("user_id", n)
}
