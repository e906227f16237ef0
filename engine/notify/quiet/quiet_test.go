package quiet

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

const night = `[{"from":"22:00","to":"07:00"}]`

func hoursOf(t testing.TB, text string) Hours {
	t.Helper()
	var h Hours
	must.OK(t, json.Unmarshal([]byte(text), &h))
	return h
}

func TestEndByName(t *testing.T) {
	for _, tc := range []struct{ zone, hours, at, end string }{
		{"America/New_York", night, "2026-03-08T04:00:00Z", "2026-03-08T11:00:00Z"}, // the night has 8 hours
		{"America/New_York", night, "2026-11-01T03:00:00Z", "2026-11-01T12:00:00Z"}, // the night has 10 hours
		{"America/New_York", `[{"from":"01:15","to":"01:45"}]`, "2026-11-01T05:30:00Z", "2026-11-01T05:45:00Z"},
		{"America/New_York", `[{"from":"01:15","to":"01:45"}]`, "2026-11-01T06:30:00Z", "2026-11-01T06:45:00Z"}, // again
		{"Europe/Berlin", night, "2026-03-28T22:00:00.001Z", "2026-03-29T05:00:00Z"},
		{"Europe/Berlin", night, "2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z"},
		{"Europe/Berlin", night, "2026-10-24T19:59:59.999Z", "2026-10-24T19:59:59.999Z"},
		{"Europe/Berlin", `[{"from":"02:15","to":"02:45"}]`, "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"}, // all of it lies in the gap
		{"Europe/Berlin", `[{"from":"01:30","to":"02:30"}]`, "2026-03-29T00:45:00Z", "2026-03-29T01:00:00Z"}, // its end does
		{"Europe/Berlin", `[{"from":"02:30","to":"03:30"}]`, "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"}, // its begin does
		{"Australia/Lord_Howe", `[{"from":"01:00","to":"02:10"}]`, "2026-10-03T15:00:00Z", "2026-10-03T15:30:00Z"},
		{"Australia/Lord_Howe", `[{"from":"01:00","to":"01:45"}]`, "2026-04-04T14:30:00Z", "2026-04-04T14:45:00Z"}, // 01:30 to 02:00 comes again
		{"Australia/Lord_Howe", `[{"from":"01:00","to":"01:45"}]`, "2026-04-04T15:00:00Z", "2026-04-04T15:15:00Z"},
		{"Antarctica/Troll", night, "2026-03-28T23:00:00Z", "2026-03-29T05:00:00Z"}, // two hours are missing
		{"Antarctica/Troll", night, "2026-10-25T00:30:00Z", "2026-10-25T07:00:00Z"},
		{"Africa/Cairo", `[{"from":"00:10","to":"00:50"}]`, "2026-04-23T22:00:00Z", "2026-04-23T22:00:00Z"},
		{"Africa/Cairo", `[{"from":"23:00","to":"00:30"}]`, "2026-04-23T21:30:00Z", "2026-04-23T22:00:00Z"},
		{"Africa/Cairo", `[{"from":"23:00","to":"24:00"}]`, "2026-10-29T20:30:00Z", "2026-10-29T22:00:00Z"}, // 23:00 to 24:00 comes again
		{"America/Santiago", `[{"from":"22:00","to":"00:30"}]`, "2026-09-06T03:00:00Z", "2026-09-06T04:00:00Z"},
		{"America/Santiago", `[{"from":"23:00","to":"24:00","days":["sat"]}]`, "2026-04-05T02:30:00Z", "2026-04-05T04:00:00Z"},
		{"Asia/Kathmandu", night, "2026-06-01T16:15:00Z", "2026-06-02T01:15:00Z"},
		{"Pacific/Apia", `[{"from":"00:00","to":"24:00","days":["fri"]}]`, "2011-12-30T09:59:00Z", "2011-12-30T09:59:00Z"},
		{"Pacific/Apia", `[{"from":"20:00","to":"08:00","days":["thu"]}]`, "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"}, // Thursday is followed by Saturday
		{"Pacific/Apia", `[{"from":"20:00","to":"08:00"}]`, "2011-12-30T09:00:00Z", "2011-12-30T18:00:00Z"},
		{"UTC", `[{"from":"00:00","to":"24:00","days":["sat","sun"]}]`, "2026-11-21T12:00:00Z", "2026-11-23T00:00:00Z"},
		{"UTC", `[{"from":"22:00","to":"24:00"},{"from":"00:00","to":"06:00"}]`, "2026-11-21T23:00:00Z", "2026-11-22T06:00:00Z"},
		{"UTC", `[{"from":"18:00","to":"06:00","days":["sun"]}]`, "2026-11-23T05:00:00Z", "2026-11-23T06:00:00Z"},
		{"UTC", `[{"from":"18:00","to":"06:00","days":["mon"]}]`, "2026-11-23T05:00:00Z", "2026-11-23T05:00:00Z"},
		{"UTC", `[]`, "2026-11-21T23:00:00Z", "2026-11-21T23:00:00Z"},
	} {
		zone, h, at := zoneOf(t, tc.zone), hoursOf(t, tc.hours), millis(t, tc.at)
		if got, want := h.End(zone, at), millis(t, tc.end); got != want || h.Contains(zone, at) != (want > at) {
			t.Errorf("%s %s: quiet hours of %s end at %v, want %s", tc.zone, tc.hours, tc.at, got.Time(), tc.end)
		}
	}
}

func TestNextByName(t *testing.T) {
	eight := []Clock{8 * 60}
	for _, tc := range []struct {
		zone   string
		clocks []Clock // nil: full hours
		at     string
		next   string
	}{
		{"Europe/Berlin", eight, "2026-03-28T07:00:00Z", "2026-03-29T06:00:00Z"},
		{"Europe/Berlin", eight, "2026-10-24T06:00:00Z", "2026-10-25T07:00:00Z"},
		{"Europe/Berlin", []Clock{150}, "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"}, // in the gap
		{"Europe/Berlin", []Clock{150}, "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}, // again
		{"Europe/Berlin", []Clock{120}, "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"}, // set back to 02:00 does not pass it
		{"Europe/Berlin", nil, "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"},          // from 03:00 to 02:00: no hour is full at 01:00Z
		{"Asia/Kathmandu", nil, "2026-06-01T16:15:00Z", "2026-06-01T17:15:00Z"},         // 45 minutes off
		{"Asia/Kathmandu", nil, "2026-06-01T16:14:59.999Z", "2026-06-01T16:15:00Z"},     //
		{"Australia/Lord_Howe", nil, "2026-10-03T15:10:00Z", "2026-10-03T15:30:00Z"},    // 02:00 and 02:30 are one instant
		{"Australia/Lord_Howe", nil, "2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"},    //
		{"Pacific/Apia", []Clock{0}, "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"},    // to Saturday
		{"Pacific/Apia", []Clock{720}, "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"},  // the noon of the missing day
		{"Africa/Cairo", []Clock{0}, "2026-10-29T20:00:00Z", "2026-10-29T22:00:00Z"},    // set back before it
		{"UTC", []Clock{540, 1080}, "2026-11-22T09:00:00Z", "2026-11-22T18:00:00Z"},     //
		{"UTC", []Clock{540, 1080}, "2026-11-22T18:00:00Z", "2026-11-23T09:00:00Z"},     //
		{"UTC", []Clock{24 * 60}, "2026-11-22T18:00:00Z", "2026-11-23T00:00:00Z"},       //
		{"UTC", []Clock{}, "2026-11-22T18:00:00Z", "1970-01-01T00:00:00Z"},              //
		{"America/St_Johns", nil, "2026-11-22T18:00:00Z", "2026-11-22T18:30:00Z"},       //
	} {
		zone, at := zoneOf(t, tc.zone), millis(t, tc.at)
		got := zone.NextHour(at)
		if tc.clocks != nil {
			got = zone.Next(at, tc.clocks...)
		}
		if want := millis(t, tc.next); got != want {
			t.Errorf("%s: after %s %v are passed at %v, want %s", tc.zone, tc.at, tc.clocks, got.Time(), tc.next)
		}
	}
}

func TestNextEnd(t *testing.T) {
	berlin := zoneOf(t, "Europe/Berlin")
	for _, tc := range []struct{ hours, at, end string }{
		{night, "2026-03-28T12:00:00Z", "2026-03-29T05:00:00Z"},
		{night, "2026-03-29T01:00:00Z", "2026-03-29T05:00:00Z"},
		{`[{"from":"12:00","to":"13:00","days":["wed"]}]`, "2026-11-25T12:00:00Z", "2026-12-02T12:00:00Z"},
		{`[{"from":"02:15","to":"02:45","days":["sun"]}]`, "2026-03-28T12:00:00Z", "2026-04-05T00:45:00Z"}, // that of the gap is none
		{`[{"from":"12:00","to":"13:00"},{"from":"12:30","to":"14:00"}]`, "2026-11-25T06:00:00Z", "2026-11-25T13:00:00Z"},
		{`[]`, "2026-11-25T12:00:00Z", "1970-01-01T00:00:00Z"},
	} {
		if got := hoursOf(t, tc.hours).NextEnd(berlin, millis(t, tc.at)); got != millis(t, tc.end) {
			t.Errorf("%s from %s: %v, want %s", tc.hours, tc.at, got.Time(), tc.end)
		}
	}
}

// Hours that Validate refuses end the search all the same.
func TestFaultyHoursEnd(t *testing.T) {
	always := Hours{{From: 0, To: 24 * 60}}
	if end := always.End(UTC, 1000); end < 1000+searchLimit {
		t.Errorf("hours without a free minute end at %v", end.Time())
	}
	if end := (Hours{{From: 60, To: 120, Days: 1}}).NextEnd(UTC, 1000); end != 0 {
		t.Errorf("hours of no day end at %v", end.Time())
	}
}

// drawHours draws hours that are valid.
func drawHours(r *rapid.T) Hours {
	clock := rapid.Custom(func(r *rapid.T) Clock {
		return Clock(rapid.OneOf(rapid.IntRange(0, 1439), rapid.SampledFrom([]int{0, 60, 120, 150, 180, 1380, 1439})).Draw(r, "clock"))
	})
	return rapid.SliceOfN(rapid.Custom(func(r *rapid.T) Span {
		return Span{
			From: clock.Draw(r, "from"),
			To:   rapid.OneOf(clock, rapid.Just(Clock(1440))).Draw(r, "to"),
			Days: Days(rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 127)).Draw(r, "days")) << 1,
		}
	}), 0, MaxSpans).Filter(func(h []Span) bool { return Hours(h).Validate() == nil }).Draw(r, "hours")
}

func drawPlace(r *rapid.T) (*Zone, engine.Millis) {
	zone, err := LoadZone(rapid.SampledFrom(zoneNames()).Draw(r, "zone"))
	must.OK(r, err)
	return zone, engine.Millis(rapid.Int64Range(1577836800_000, 1924992000_000).Draw(r, "at"))
}

func TestEndIsLeast(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		zone, at := drawPlace(r)
		h := drawHours(r)
		quiet := func(at engine.Millis) bool { return isQuiet(h, shown(zone.location, at)) }
		if h.Contains(zone, at) != quiet(at) {
			r.Fatalf("%v at %v", h, at.Time())
		}
		end := h.End(zone, at)
		if quiet(end) || end < at || end > at && !quiet(end-1) {
			r.Fatalf("%v of %v end at %v", h, at.Time(), end.Time())
		}
		for m := at; m < end; m += minute {
			if !quiet(m) {
				r.Fatalf("%v of %v end at %v, after %v", h, at.Time(), end.Time(), m.Time())
			}
		}
		next := h.NextEnd(zone, at)
		switch {
		case len(h) == 0:
			if next != 0 {
				r.Fatalf("no hours end at %v", next.Time())
			}
		case quiet(at):
			if next != end {
				r.Fatalf("%v of %v end at %v, next at %v", h, at.Time(), end.Time(), next.Time())
			}
		default:
			begin := at
			for m := floor(at, minute) + minute; m < next; m += minute {
				if quiet(m) {
					begin = m
					break
				}
			}
			if begin == at || h.End(zone, begin) != next {
				r.Fatalf("%v after %v end at %v", h, at.Time(), next.Time())
			}
		}
	})
}

func TestNextIsLeast(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		zone, at := drawPlace(r)
		clocks := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 1440), func(m int) Clock { return Clock(m) }), 1, 4).Draw(r, "clocks")
		next := zone.Next(at, clocks...)
		if rapid.Bool().Draw(r, "hour") {
			clocks, next = fullHours(), zone.NextHour(at)
		}
		if next <= at || !passes(zone.location, next, clocks...) {
			r.Fatalf("after %v: %v", at.Time(), next.Time())
		}
		for m := floor(at, minute) + minute; m < next; m += minute {
			if passes(zone.location, m, clocks...) {
				r.Fatalf("after %v: %v, but %v comes before", at.Time(), next.Time(), m.Time())
			}
		}
	})
}

// The stretch that is cached for an instant has one offset throughout, also before
// zones had full minutes, beyond the tables of the zone data and on the last day of a
// leap year.
func TestStretchHasOneOffset(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		zone, _ := drawPlace(r)
		years := rapid.OneOf(rapid.Int64Range(-5_000_000_000_000, 14_000_000_000_000),
			rapid.SampledFrom([]int64{1735603200_000, 1735689599_999, 1861833600_000, 4133894400_000}))
		at := engine.Millis(years.Draw(r, "at"))
		s := zone.at(at)
		if at < s.start || at >= s.end {
			r.Fatalf("%s: %v is not in %v to %v", zone.name, at.Time(), s.start.Time(), s.end.Time())
		}
		from, to := max(s.start, at-800*day), min(s.end, at+800*day)
		for _, m := range []engine.Millis{from, to - 1, at, engine.Millis(rapid.Int64Range(int64(from), int64(to-1)).Draw(r, "within"))} {
			if s.wall(m) != shown(zone.location, m) {
				r.Fatalf("%s shows %v at %v, not %v", zone.name, shown(zone.location, m).Time(), m.Time(), s.wall(m).Time())
			}
		}
	})
}

// Package time takes each year for 365 days where the rules of the zone data hold.
func TestLastDayOfALeapYear(t *testing.T) {
	zone := zoneOf(t, "Europe/Berlin")
	for _, text := range []string{"2039-12-31T12:00:00Z", "2040-12-31T00:00:00Z", "2040-12-31T23:59:59.999Z", "2041-01-01T00:00:00Z"} {
		at := millis(t, text)
		if s := zone.at(at); at < s.start || at >= s.end || s.offset != hour {
			t.Errorf("%s is not in %v to %v", text, s.start.Time(), s.end.Time())
		}
	}
	at := millis(t, "2040-12-31T22:00:00Z")
	if end := hoursOf(t, night).End(zone, at); end != at+8*hour {
		t.Errorf("quiet hours of %v end at %v", at.Time(), end.Time())
	}
}

// A zone whose rules begin in the middle of a year: package time gives a start of the
// summer time that lies before the last change of the tables.
func TestRulesThatBeginInTheMiddleOfAYear(t *testing.T) {
	from := millis(t, "2020-07-01T00:00:00Z")
	counts := func(times, types, chars byte) string {
		return "TZif2" + strings.Repeat("\x00", 15+12) + "\x00\x00\x00" + string([]byte{times}) + "\x00\x00\x00" + string([]byte{types}) + "\x00\x00\x00" + string([]byte{chars})
	}
	var change [8]byte
	binary.BigEndian.PutUint64(change[:], uint64(from/1000))
	data := counts(0, 0, 0) + counts(1, 2, 9) + string(change[:]) + "\x01" +
		"\x00\x00\x46\x50\x00\x00" + "\x00\x00\x1c\x20\x01\x04" + "OLD\x00CEST\x00" + "\nCET-1CEST,M3.5.0,M10.5.0/3\n"
	location, err := time.LoadLocationFromTZData("Test/Zone", []byte(data))
	must.OK(t, err)
	zone := &Zone{name: "Test/Zone", location: location}
	for _, days := range []engine.Millis{10, -10, 100, -100, 200, 1} { // the stretch after the change is cached first
		at := from + days*day
		if s := zone.at(at); s.wall(at) != shown(location, at) {
			t.Errorf("%v shows %v, want %v", at.Time(), s.wall(at).Time(), shown(location, at).Time())
		}
	}
	if before := shown(location, from-day) - (from - day); before != 5*hour {
		t.Errorf("the test's zone is %v off before its change", before)
	}
}

func TestHoursAsJSON(t *testing.T) {
	for _, text := range []string{
		`[]`, night, `[{"from":"00:00","to":"24:00","days":["mon","sun"]}]`,
		`[{"from":"09:05","to":"09:06"},{"from":"22:00","to":"00:00","days":["tue","wed","thu","fri","sat"]}]`,
	} {
		again, err := json.Marshal(hoursOf(t, text))
		if err != nil || string(again) != text {
			t.Errorf("%s became %s, %v", text, again, err)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		h := drawHours(r)
		text, err := json.Marshal(h)
		var again Hours
		if err := json.Unmarshal(text, &again); err != nil || len(h)+len(again) > 0 && !reflect.DeepEqual(again, h) {
			r.Fatalf("%v became %s and %v, %v", h, text, again, err)
		}
		must.OK(r, err)
	})
}

func TestHoursRefused(t *testing.T) {
	many := strings.Repeat(`{"from":"01:00","to":"02:00"},`, MaxSpans)
	for text, faults := range map[string][]string{
		`{}`:                        {"no list"},
		`[1]`:                       {"span 1: it is no object"},
		`[null]`:                    {"span 1: it is no object"},
		`[{"from":"1","from":"2"}]`: {"no object whose keys come once"},
		`[{}]`:                      {`"from" must be a time of day`, `"to" must be`},
		`[{"from":"7:00","to":"25:00","form":1,"days":[]},{"from":7,"to":"24:01","days":["mon","mon"]},{"from":"00:60","to":"0a:00","days":["Mo"]}]`: {
			`span 1: "from": "7:00" is no time of day`, `span 1: "to": "25:00"`, `span 1: unknown key "form"`, `span 1: "days" must be a list`,
			`span 2: "from" must be a time of day`, `span 2: "to": "24:01"`, `it has "mon"`, `"00:60"`, `"0a:00"`, `it has "Mo"`,
		},
		`[{"from":"07:00","to":"07:00"}]`:                               {"begins and ends at 07:00"},
		`[{"from":"24:00","to":"07:00"}]`:                               {"before 24:00"},
		`[{"from":"00:00","to":"24:00"}]`:                               {"the whole week"},
		`[{"from":"12:00","to":"11:59"},{"from":"11:00","to":"13:00"}]`: {"the whole week"},
		`[` + many + `{"from":"01:00","to":"02:00"}]`:                   {"9 spans"},
	} {
		h := Hours{{From: 1, To: 2}}
		err := h.UnmarshalJSON([]byte(text))
		for _, fault := range faults {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: %q is missing in: %v", text, fault, err)
			}
		}
		if len(h) != 1 {
			t.Errorf("%s changed the hours", text)
		}
	}
	for _, h := range []Hours{{{From: -1, To: 5}}, {{From: 5, To: 1441}}, {{From: 5, To: 6, Days: 1}}} {
		if h.Validate() == nil {
			t.Errorf("%v is valid", h)
		}
	}
}

// A week is refused if and only if each of its minutes is quiet.
func TestFreeMinute(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var h Hours
		for d := 1; d <= 7; d++ { // a week of nearly whole days, and some odd minutes
			from := Clock(rapid.SampledFrom([]int{0, 0, 0, 1, 720}).Draw(r, "from"))
			h = append(h, Span{From: from, To: Clock(rapid.SampledFrom([]int{1440, 1440, 1440, 720, 1439}).Draw(r, "to")), Days: 1 << d})
			if h[d-1].To == from {
				h[d-1].To = 1440
			}
		}
		h = append(h, Span{From: 719, To: Clock(rapid.SampledFrom([]int{718, 2, 1440}).Draw(r, "last"))})
		free := false
		for m := wall(0); m < 7*day && !free; m += minute {
			free = !isQuiet(h, m)
		}
		if (h.Validate() == nil) != free {
			r.Fatalf("%v: a free minute: %v, %v", h, free, h.Validate())
		}
	})
}

func TestClocks(t *testing.T) {
	for m := range Clock(1441) {
		if c, err := ParseClock(m.String()); err != nil || c != m {
			t.Errorf("%v became %v, %v", m, c, err)
		}
	}
	for _, text := range []string{"", "8:00", "08-00", "08:0", "08:000", " 8:00", "24:01", "23:60", "+1:00", "-1:00", "٠٨:٠٠"} {
		if c, err := ParseClock(text); err == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
}

func TestZoneNames(t *testing.T) {
	for _, name := range []string{
		"", "Local", "localtime", "posixrules", "Factory", "..", "../etc/passwd", "Europe/../Europe/Berlin", "/etc/localtime",
		"Europe//Berlin", "Europe/", "Europe", "./UTC", "right/Europe/Berlin", "posix/UTC", "tzdata.zi", "Atlantis/Capital",
		"Europe/Berlin\x00", `Europe\Berlin`, strings.Repeat("A", 10_000), "Zürich", "leapseconds",
	} {
		if zone, err := LoadZone(name); err == nil || zone != nil || len(err.Error()) > 500 {
			t.Errorf("%.40q: %v", name, err)
		}
	}
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12", "EST5EDT"} {
		zone := zoneOf(t, name)
		if again := zoneOf(t, name); zone.Name() != name || again != zone {
			t.Errorf("%s: %v", name, zone)
		}
	}
	if len(zoneNames()) < 400 {
		t.Errorf("%d zones", len(zoneNames()))
	}
}

// A stream of wrong names keeps the cache within its bound.
func TestCacheOfZonesIsBounded(t *testing.T) {
	for i := range 3000 {
		LoadZone("Nowhere/" + string(rune('A'+i%26)) + Clock(i % 1440).String()[:2] + string(rune('a'+i/26%26)) + string(rune('a'+i/676)))
	}
	if entries, _ := loaded.Usage(); entries > 1024 {
		t.Errorf("%d entries", entries)
	}
	zoneOf(t, "Europe/Berlin")
}

// A zone is shared by goroutines at different times.
func TestZoneIsShared(t *testing.T) {
	zone := zoneOf(t, "Europe/Berlin")
	var all sync.WaitGroup
	for g := range engine.Millis(4) {
		all.Go(func() {
			for i := range engine.Millis(2000) {
				at := i*50*day/7 + g*hour
				if s := zone.at(at); s.wall(at) != shown(zone.location, at) {
					t.Errorf("%v", at.Time())
				}
			}
		})
	}
	all.Wait()
}

func TestTzdata(t *testing.T) {
	write := func(name, text string) string {
		root := t.TempDir()
		os.MkdirAll(filepath.Join(root, "Europe"), 0o700)
		os.WriteFile(filepath.Join(root, "Europe", "Berlin"), nil, 0o600)
		os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)
		return root
	}
	zi, plus := write("tzdata.zi", "# version 2026b\n# more\n"), write("+VERSION", "2025c\n")
	other, none := write("tzdata.zi", "# redo posix_only\n"), t.TempDir()
	for want, folders := range map[string][]string{
		"2026b": {none, zi, plus}, "2025c": {plus, zi}, "": {other, zi}, runtime.Version(): {none},
	} {
		if got := tzdata(folders); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if Tzdata() == "" {
		t.Error("the version of the zone data of this machine is unknown")
	}
}

func TestAskingAllocatesNothing(t *testing.T) {
	zone, h := zoneOf(t, "Europe/Berlin"), hoursOf(t, night)
	at := millis(t, "2026-11-22T12:00:00Z")
	digests := []Clock{540, 1080}
	if n := testing.AllocsPerRun(100, func() {
		at += 1000
		zone.Local(at)
		h.Contains(zone, at)
		h.End(zone, at)
		h.NextEnd(zone, at)
		zone.NextHour(at)
		zone.Next(at, digests...)
		LoadZone("Europe/Berlin")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkQuiet(b *testing.B) {
	zone, h := zoneOf(b, "Europe/Berlin"), hoursOf(b, night)
	at := engine.MillisOf(time.Unix(1795348800, 0))
	for name, f := range map[string]func(engine.Millis){
		"Local":    func(at engine.Millis) { zone.Local(at) },
		"Contains": func(at engine.Millis) { h.Contains(zone, at) },
		"End":      func(at engine.Millis) { h.End(zone, at) },
		"NextEnd":  func(at engine.Millis) { h.NextEnd(zone, at) },
		"NextHour": func(at engine.Millis) { zone.NextHour(at) },
		"Next":     func(at engine.Millis) { zone.Next(at, 540, 1080) },
		"LoadZone": func(engine.Millis) { LoadZone("Europe/Berlin") },
		"Changing": func(at engine.Millis) { zone.Local(at); zone.Local(at - 180*day) }, // the stretch is another one each time
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				f(at + engine.Millis(i%86400)*1000)
			}
		})
	}
}
