package notifyoracle

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
)

const (
	minute        = engine.Millis(60_000)
	minutesPerDay = 24 * 60
)

// zone shows the wall clock of a time zone. Since 1973 every offset is a number of whole
// minutes and changes at a whole minute, so that a walk by minutes meets every change.
type zone struct {
	location *time.Location
	days     map[int64]*[minutesPerDay]int64 // by UTC day: what the clock shows at each minute
	day      int64                           // the one that was asked for last
	walls    *[minutesPerDay]int64
}

// zone returns the zone of a name, nil where there is none.
func (o *Oracle) zone(name string) *zone {
	z, met := o.zones[name]
	if !met {
		if l, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
			z = &zone{location: l, days: map[int64]*[minutesPerDay]int64{}, day: -1}
		}
		o.zones[name] = z
	}
	return z
}

// wall returns what the clock shows at an instant: minutes since a Thursday, 1970-01-01
// 00:00 by this clock.
func (z *zone) wall(at engine.Millis) int64 {
	m := int64(at / minute)
	if day := m / minutesPerDay; day != z.day {
		z.day, z.walls = day, z.days[day]
		if z.walls == nil {
			z.walls = z.showDay(day)
			z.days[day] = z.walls
		}
	}
	return z.walls[m%minutesPerDay]
}

func (z *zone) showDay(day int64) *[minutesPerDay]int64 {
	var walls [minutesPerDay]int64
	for i := range walls {
		seconds := (day*minutesPerDay + int64(i)) * 60
		_, offset := time.Unix(seconds, 0).In(z.location).Zone()
		walls[i] = (seconds + int64(offset)) / 60
	}
	return &walls
}

// local returns the ISO weekday, 1 Monday to 7 Sunday, and the minute of the day.
func (z *zone) local(at engine.Millis) (weekday, minuteOfDay int) {
	w := z.wall(at)
	return int((w/minutesPerDay+3)%7) + 1, int(w % minutesPerDay)
}

// quiet reports whether the clock shows a quiet time.
func (z *zone) quiet(hours quiet.Hours, at engine.Millis) bool {
	weekday, m := z.local(at)
	yesterday := (weekday+5)%7 + 1
	for _, span := range hours {
		from, to := int(span.From), int(span.To)
		switch {
		case from < to && m >= from && m < to && beginsOn(span, weekday),
			from >= to && m >= from && beginsOn(span, weekday),
			from >= to && m < to && beginsOn(span, yesterday):
			return true
		}
	}
	return false
}

func beginsOn(span quiet.Span, weekday int) bool {
	return span.Days == 0 || span.Days&(1<<weekday) != 0
}

// quietEnd returns the least instant from at on that is not quiet.
func (z *zone) quietEnd(hours quiet.Hours, at engine.Millis) engine.Millis {
	for z.quiet(hours, at) {
		at = nextMinute(at)
	}
	return at
}

// nextQuietEnd returns the end of the quiet span that is, else of the next one.
func (z *zone) nextQuietEnd(hours quiet.Hours, at engine.Millis) engine.Millis {
	for !z.quiet(hours, at) {
		at = nextMinute(at)
	}
	return z.quietEnd(hours, at)
}

// nextPass returns the least instant after at at which the clock passes one of the times
// of day: it shows the time or a later one of that day, and a moment before it did not.
func (z *zone) nextPass(at engine.Millis, clocks ...quiet.Clock) engine.Millis {
	for t := nextMinute(at); ; t += minute {
		before, shows := z.wall(t-1), z.wall(t)
		for day := before / minutesPerDay; day <= shows/minutesPerDay; day++ {
			for _, clock := range clocks {
				if w := day*minutesPerDay + int64(clock); before < w && w <= shows {
					return t
				}
			}
		}
	}
}

// nextMinute returns the first whole minute after an instant.
func nextMinute(at engine.Millis) engine.Millis { return (at/minute + 1) * minute }

// fullHours are the times of day at which the hour changes.
var fullHours = func() (clocks []quiet.Clock) {
	for h := range quiet.Clock(24) {
		clocks = append(clocks, h*60)
	}
	return clocks
}()
