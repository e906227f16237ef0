package quiet

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/lru"
)

// Zone is a named time zone. It is safe for concurrent use.
type Zone struct {
	name     string
	location *time.Location
	last     atomic.Pointer[stretch] // the one that was asked for last
}

// UTC is the zone without an offset.
var UTC = &Zone{name: "UTC", location: time.UTC}

// MaxZoneName bounds the name of a zone in bytes. The longest of the zone data has
// 38.
const MaxZoneName = 64

// loaded keeps zones and, as nil, names of none: events bring names, and a name
// costs several reads of files. There are about 600 names; 1024 entries keep a
// stream of wrong ones from growing it.
var loaded = lru.New(1024, func(string, *Zone) int64 { return 1 })

// LoadZone returns the zone of an IANA name such as "Europe/Berlin". Zones and
// unknown names are cached. Names that mean something else on each machine are
// refused ("", "Local", "localtime"), and so are paths.
func LoadZone(name string) (*Zone, error) {
	if name == "UTC" {
		return UTC, nil
	}
	zone, known := loaded.Get(name)
	if !known {
		if validName(name) {
			zone = load(name)
		}
		if len(name) <= MaxZoneName {
			loaded.Put(name, zone)
		}
	}
	if zone == nil {
		return nil, fmt.Errorf("%.80q is no time zone: name one of the IANA zone data, such as Europe/Berlin or UTC", name)
	}
	return zone, nil
}

func load(name string) *Zone {
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return &Zone{name: name, location: location}
}

// validName reports whether a name has the form of an IANA name: parts of letters,
// digits, "_", "-" and "+", joined by single slashes.
func validName(name string) bool {
	if len(name) > MaxZoneName {
		return false
	}
	first, rest, _ := strings.Cut(name, "/")
	switch first {
	case "posix", "right": // copies of all zones; right ones count leap seconds
		return false
	case "Local", "localtime", "posixrules", "Factory":
		return rest != ""
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.Trim(part, letters) != "" {
			return false
		}
	}
	return true
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+"

// Name returns the IANA name.
func (z *Zone) Name() string { return z.name }

// Local returns the ISO weekday, 1 Monday to 7 Sunday, and the time of day that the
// zone's clock shows at an instant, without its seconds.
func (z *Zone) Local(at engine.Millis) (weekday int, minuteOfDay Clock) {
	w := z.at(at).wall(at)
	return weekdayOf(w), Clock((w - midnight(w)) / minute)
}

// NextHour returns the least instant after at at which the clock passes a full hour.
// What that means where the clock is set is said at [Zone.Next].
func (z *Zone) NextHour(at engine.Millis) engine.Millis {
	return z.pass(at, func(w wall) wall { return floor(w, hour) + hour })
}

// Next returns the least instant after at at which the clock passes one of the times
// of day, 0 without any. The clock W passes a time w at t if W(t) >= w and
// W(t-1ms) < w: a time in a gap is passed at the gap's end, and a time that is shown
// twice is passed twice.
func (z *Zone) Next(at engine.Millis, clocks ...Clock) engine.Millis {
	if len(clocks) == 0 {
		return 0
	}
	return z.pass(at, func(w wall) wall {
		least := wall(math.MaxInt64)
		for _, c := range clocks {
			next := midnight(w) + c.millis()
			if next <= w {
				next += day
			}
			least = min(least, next)
		}
		return least
	})
}

// pass returns the least instant after at at which the clock passes a time. after
// returns the least such time after a given one.
func (z *Zone) pass(at engine.Millis, after func(wall) wall) engine.Millis {
	for {
		s := z.at(at)
		next := after(s.wall(at))
		if t := next - s.offset; t < s.end {
			return t
		}
		at = s.end // the clock is set, and may jump over the time
		if z.at(at).wall(at) >= next {
			return at
		}
	}
}

// stretch is a time without a change of the zone's offset.
type stretch struct {
	start, end engine.Millis // [start, end)
	offset     engine.Millis // local minus UTC
}

// wall returns what the clock shows at an instant of the stretch.
func (s *stretch) wall(at engine.Millis) wall { return at + s.offset }

// at returns a stretch with an instant in it.
func (z *Zone) at(at engine.Millis) *stretch {
	if s := z.last.Load(); s != nil && s.start <= at && at < s.end {
		return s
	}
	s := bounds(z.location, at)
	// The start of a year's rules may lie before the last change of the tables,
	// where another offset held.
	for from := s.start; from != math.MinInt64; {
		before := bounds(z.location, from)
		if before.end > at {
			s.start = from
			break
		}
		from = before.end
	}
	z.last.Store(&s)
	return &s
}

// bounds returns the stretch with an instant in it as package time knows it: the
// end is right, the start may be too early.
func bounds(location *time.Location, at engine.Millis) stretch {
	t := at.Time().In(location)
	_, seconds := t.Zone()
	start, end := t.ZoneBounds()
	s := stretch{start: math.MinInt64, end: math.MaxInt64, offset: engine.Millis(seconds) * 1000}
	if !start.IsZero() {
		s.start = engine.MillisOf(start)
	}
	if !end.IsZero() {
		s.end = engine.MillisOf(end)
	}
	if s.end <= at {
		// Package time takes each year for 365 days, so on the last day of a leap
		// year the end is past. It is the end of that day, in UTC.
		s.end = floor(at, day) + day
	}
	return s
}
