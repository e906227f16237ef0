package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// UserID is a user's id on the command line; 0 is none.
type UserID int32

// UnmarshalText reads an id. A 0 is refused: as a filter it would mean everybody.
func (u *UserID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no user id: it must be an integer from 1 to 2147483647", text)
	}
	*u = UserID(n)
	return nil
}

// EventType is the name of an event's type on the command line; "" is none. The shop's own
// types are known only once the settings are read, so that it is judged later.
type EventType string

// Type returns the type of that name, 0 for none.
func (e EventType) Type() (profile.EventType, error) {
	if e == "" {
		return 0, nil
	}
	if t := profile.ParseEventType(string(e)); t != 0 {
		return t, nil
	}
	return 0, fmt.Errorf("%.40q is no event type: it must be one of %s", string(e), strings.ReplaceAll(e.Words(), ",", ", "))
}

// Words are what a shell completes.
func (EventType) Words() string {
	types := profile.EventTypes()
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, ",")
}

// Instant is a point in time on the command line.
type Instant struct {
	time.Time
	relative bool // given as how long ago
	ago      time.Duration
}

// UnmarshalText reads RFC 3339, or how long ago: "90m", "2h ago", "3d".
func (i *Instant) UnmarshalText(text []byte) (err error) {
	*i, err = parseInstant(string(text), time.Now())
	return err
}

func parseInstant(text string, now time.Time) (Instant, error) {
	if text == "" {
		return Instant{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return Instant{Time: t}, nil
	}
	if d, ok := parseSpan(strings.TrimSuffix(strings.TrimSpace(text), "ago")); ok {
		return Instant{Time: now.Add(-d), relative: true, ago: d}, nil
	}
	return Instant{}, fmt.Errorf("%q is no time: expected 2026-02-10T14:30:00Z, or how long ago: 90m, 2h, 3d", text)
}

// Span is a length of time on the command line.
type Span time.Duration

// UnmarshalText reads "90m", "168h" or "7d".
func (s *Span) UnmarshalText(text []byte) error {
	d, ok := parseSpan(string(text))
	if !ok {
		return fmt.Errorf("%q is no length of time: expected such as 90m, 168h or 7d", text)
	}
	*s = Span(d)
	return nil
}

// parseSpan reads what Go does, and whole days.
func parseSpan(text string) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// CheckSpan refuses a span of time that nothing falls into: events have milliseconds.
// Two instants that were given as how long ago were read at different times, so
// that their lengths are compared.
func CheckSpan(from, until Instant, fromFlag, untilFlag string) error {
	before := engine.MillisOf(from.Time) < engine.MillisOf(until.Time)
	if from.relative && until.relative {
		before = from.ago.Milliseconds() > until.ago.Milliseconds()
	}
	if from.IsZero() || until.IsZero() || before {
		return nil
	}
	return fmt.Errorf("%s is not before %s: nothing is between them; give %s the earlier time, such as %s 3d %s 2d",
		fromFlag, untilFlag, fromFlag, fromFlag, untilFlag)
}

// CheckNear judges how many of the nearest products to show.
func CheckNear(n int) error {
	if n < 0 {
		return errors.New("--near must be at least 0")
	}
	return nil
}

// CheckMix judges a second vector's share of a mix.
func CheckMix(share float64) error {
	if !(share >= 0 && share <= 1) {
		return errors.New("--mix must be between 0 and 1")
	}
	return nil
}

// Rate is so many per second; 0 is no limit.
type Rate float64

// UnmarshalText reads "100/s" or "100".
func (r *Rate) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "/s"), 64)
	if err != nil || !(n > 0 && n <= 1e6) {
		return fmt.Errorf("%q is no rate: expected so many a second, such as 100/s", text)
	}
	*r = Rate(n)
	return nil
}
