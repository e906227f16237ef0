package quiet

import (
	"fmt"

	"keyfold/engine"
)

const (
	minute = engine.Millis(60_000)
	hour   = 60 * minute
	day    = 24 * hour
)

// Clock is a time of day in minutes, 0 to 1440. As text it is "22:00"; 1440 is
// "24:00", the end of the day.
type Clock int

// ParseClock reads a time of day of the form "22:00", from "00:00" to "24:00".
func ParseClock(text string) (Clock, error) {
	two := func(s string) int {
		if s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
			return 100
		}
		return int(s[0]-'0')*10 + int(s[1]-'0')
	}
	if len(text) == 5 && text[2] == ':' {
		hours, minutes := two(text[:2]), two(text[3:])
		if c := Clock(hours*60 + minutes); minutes < 60 && c <= 24*60 {
			return c, nil
		}
	}
	return 0, fmt.Errorf(`%q is no time of day: write hours and minutes as "08:00", at most "24:00"`, text)
}

// String returns the time of day as [ParseClock] reads it.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

// MarshalText returns the time of day as [ParseClock] reads it.
func (c Clock) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is [ParseClock].
func (c *Clock) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClock(string(text))
	return err
}

// millis returns the time of day in milliseconds since midnight.
func (c Clock) millis() engine.Millis { return engine.Millis(c) * minute }

// wall is what a zone's clock shows, as milliseconds since 1970-01-01 00:00 of that
// clock.
type wall = engine.Millis

// midnight returns the midnight at or before w.
func midnight(w wall) wall { return floor(w, day) }

// weekdayOf returns the ISO weekday of w, 1 Monday to 7 Sunday.
func weekdayOf(w wall) int {
	const thursday = 3 // 1970-01-01, counted from Monday 0
	days := midnight(w)/day + thursday
	return int((days%7+7)%7) + 1
}

// floor returns the multiple of unit at or before w.
func floor(w wall, unit engine.Millis) wall {
	rest := w % unit
	if rest < 0 {
		rest += unit
	}
	return w - rest
}
