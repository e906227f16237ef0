package notify

import (
	"fmt"
	"strings"
)

// MarshalText returns the name; JSON has the enums by their names.
func (t EventType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a name.
func (t *EventType) UnmarshalText(b []byte) (err error) {
	*t, err = named(b, ParseEventType)
	return err
}

// MarshalText returns the name.
func (h Hint) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads a name.
func (h *Hint) UnmarshalText(b []byte) (err error) { *h, err = named(b, ParseHint); return err }

// MarshalText returns the name.
func (c Channel) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a name.
func (c *Channel) UnmarshalText(b []byte) (err error) { *c, err = named(b, ParseChannel); return err }

// MarshalText returns the name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads a name.
func (o *Outcome) UnmarshalText(b []byte) (err error) { *o, err = named(b, ParseOutcome); return err }

// MarshalText returns the name.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *Strategy) UnmarshalText(b []byte) (err error) { *s, err = named(b, ParseStrategy); return err }

// MarshalText returns the name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *Status) UnmarshalText(b []byte) (err error) { *s, err = named(b, ParseStatus); return err }

// MarshalText returns the name.
func (c Choice) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a name.
func (c *Choice) UnmarshalText(b []byte) (err error) {
	*c, err = named(b, func(name string) Choice { return Choice(indexOf(choiceNames[:], name)) })
	return err
}

// MarshalText returns the name.
func (u Unless) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads a name.
func (u *Unless) UnmarshalText(b []byte) (err error) {
	*u, err = named(b, func(name string) Unless { return Unless(indexOf(unlessNames[:], name)) })
	return err
}

// named returns the value of a name. The empty name is that of the zero value.
func named[T interface {
	~uint8
	String() string
}](name []byte, parse func(string) T) (T, error) {
	value := parse(string(name))
	if value == 0 && len(name) > 0 {
		var names []string
		for v := T(1); v.String() != ""; v++ {
			names = append(names, v.String())
		}
		return 0, fmt.Errorf("found %q, expected one of %s", name, strings.Join(names, ", "))
	}
	return value, nil
}

// text says in a sentence why there is no taste term.
func (s Skip) text() string {
	switch s {
	case SkipText:
		return "texts of this type are not embedded"
	case SkipRefused:
		return "the embedding API does not take this text"
	case SkipNoProfile:
		return "the user has no profile"
	case SkipOtherProfile:
		return "other settings made the user's profile"
	case SkipEmbeddingLate:
		return "the embedding API did not answer in time"
	case SkipEmbeddingAway:
		return "the embedding API was away"
	case SkipProfilesLate:
		return "the profile store did not answer in time"
	case SkipProfilesAway:
		return "the profile store was away"
	}
	return ""
}
