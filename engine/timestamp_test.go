package engine

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestParseTimestamp(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Millis
	}{
		{"2026-02-10T14:30:00Z", 1770733800000},
		{"2026-02-10T14:30:00+00:00", 1770733800000},
		{"2026-02-10T14:30:00-00:00", 1770733800000},
		{"2026-02-10T14:30:00+0000", 1770733800000},
		{"2026-02-10T20:00:00+05:30", 1770733800000},
		{"2026-02-10T09:30:00-0500", 1770733800000},
		{"2026-02-11T14:29:00+23:59", 1770733800000},
		{"2026-02-09T14:31:00-2359", 1770733800000},
		{"2026-02-10T14:30:00.5Z", 1770733800500},
		{"2026-02-10T14:30:00.0409Z", 1770733800040},
		{"2026-02-10T14:30:00.999999999999999999999Z", 1770733800999},
		{"2026-02-10T14:30:00." + strings.Repeat("0", 5000) + "+01:00", 1770730200000},
		{"1970-01-01T00:00:00Z", 0},
		{"1969-12-31T23:59:59.0019Z", -999}, // towards the past, not towards 1970
		{"1969-12-31T23:59:59.9999Z", -1},
		{"2024-02-29T00:00:00Z", 1709164800000},
		{"2000-02-29T23:59:59Z", 951868799000},
		{"0000-01-01T00:00:00Z", -62167219200000},
		{"9999-12-31T23:59:59.999Z", 253402300799999},
	} {
		got, err := ParseTimestamp([]byte(tc.text))
		if err != nil || got != tc.want {
			t.Errorf("%.40s: got %d, %v, want %d", tc.text, got, err, tc.want)
		}
	}
}

var badTimestamps = []string{
	"", "Z", "2026", "2026-02-10", "now", "1770733800", "2026-02-10T14:30Z", "2026-02-10T14Z", "20260210T143000Z",
	"2026-02-10 14:30:00Z", "2026-02-10t14:30:00Z", "2026-02-10T14:30:00z", " 2026-02-10T14:30:00Z", "2026-02-10T14:30:00Z ",
	"2026-2-10T14:30:00Z", "26-02-10T14:30:00Z", "12026-02-10T14:30:00Z", "+2026-02-10T14:30:00Z", "-026-02-10T14:30:00Z",
	"2026/02/10T14:30:00Z", "2026-02-10T14.30.00Z", "2026-02-10T1:30:00Z", "2026-W07-2T14:30:00Z", "2026-041T14:30:00Z",
	"2026-00-10T14:30:00Z", "2026-13-10T14:30:00Z", "2026-02-00T14:30:00Z", "2026-02-30T14:30:00Z", "2025-02-29T14:30:00Z",
	"1900-02-29T14:30:00Z", "2026-04-31T14:30:00Z", "2026-12-32T14:30:00Z", "2026-02-10T24:00:00Z", "2026-02-10T25:00:00Z",
	"2026-02-10T14:60:00Z", "2026-02-10T14:30:60Z", "2016-12-31T23:59:60Z", "2026-02-10T14:30:61Z",
	"2026-02-10T14:30:00.Z", "2026-02-10T14:30:00.", "2026-02-10T14:30:00,5Z", "2026-02-10T14:30:00.5.5Z", "2026-02-10T14:30:00.-5Z",
	"2026-02-10T14:30:00+", "2026-02-10T14:30:00+00", "2026-02-10T14:30:00+0", "2026-02-10T14:30:00+000", "2026-02-10T14:30:00+0:00",
	"2026-02-10T14:30:00+00:0", "2026-02-10T14:30:00+00:000", "2026-02-10T14:30:00+24:00", "2026-02-10T14:30:00-2400",
	"2026-02-10T14:30:00+00:60", "2026-02-10T14:30:00+0060", "2026-02-10T14:30:00*00:00", "2026-02-10T14:30:00 00:00",
	"2026-02-10T14:30:00Z+00:00", "2026-02-10T14:30:00ZZ", "2026-02-10T14:30:00 CET", "2026-02-10T14:30:00+00:00[Europe/Berlin]",
	"2026-02-10T14:30:00−01:00", "２０２６-02-10T14:30:00Z", "2026-02-30T14:30:00", "0000-00-00T00:00:00Z",
}

func TestParseTimestampRefuses(t *testing.T) {
	for _, text := range badTimestamps {
		got, err := ParseTimestamp([]byte(text))
		if err == nil || ReasonOf(err) != ReasonBadTimestamp {
			t.Errorf("%q: got %d, %v, want %s", text, got, err, ReasonBadTimestamp)
		}
	}
	for _, text := range []string{"2026-02-10T14:30:00", "2026-02-10T14:30:00.25"} {
		got, err := ParseTimestamp([]byte(text))
		if err == nil || ReasonOf(err) != ReasonTimestampNoOffset {
			t.Errorf("%q: got %d, %v, want %s", text, got, err, ReasonTimestampNoOffset)
		}
	}
}

var timestampPattern = regexp.MustCompile(
	`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:(Z)|([+-](?:[01]\d|2[0-3])):?([0-5]\d))?$`)

// referenceTimestamp is ParseTimestamp by regular expression and time.Parse,
// which alone would also take one-digit hours, a comma before the fraction and
// an offset of 24 hours. It returns "" or the reason.
func referenceTimestamp(text string) (Millis, string) {
	m := timestampPattern.FindStringSubmatch(text)
	if m == nil {
		return 0, ReasonBadTimestamp
	}
	if _, err := time.Parse("2006-01-02T15:04:05", m[1]); err != nil {
		return 0, ReasonBadTimestamp
	}
	offset := m[3]
	if offset == "" && m[4] != "" {
		offset = m[4] + ":" + m[5]
	}
	if offset == "" {
		return 0, ReasonTimestampNoOffset
	}
	t, err := time.Parse(time.RFC3339Nano, m[1]+m[2]+offset)
	if err != nil {
		return 0, ReasonBadTimestamp
	}
	return Millis(t.UnixMilli()), ""
}

// The instant is that of time.Parse, and what that refuses is refused.
func FuzzTimestamp(f *testing.F) {
	for _, text := range badTimestamps {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTimestamp([]byte(text))
		want, reason := referenceTimestamp(text)
		if at, ok := InstantOf(text); len(text) > 10 && len(text) <= 64 && (ok != (err == nil) || ok && at != got) {
			t.Fatalf("%q: as an instant %d, %t, as a timestamp %d, %v", text, at, ok, got, err)
		}
		if err == nil {
			if reason != "" || got != want {
				t.Fatalf("%q: got %d, want %d %s", text, got, want, reason)
			}
			return
		}
		if ReasonOf(err) != reason {
			t.Fatalf("%q: got %v (%s), want %d %q", text, err, ReasonOf(err), want, reason)
		}
	})
}

func TestInstants(t *testing.T) {
	for text, want := range map[string]string{
		"2026-12-24":                "2026-12-24T00:00:00Z",
		"2026-12-24T10:00:00+01:00": "2026-12-24T09:00:00Z",
		"2026-02-30":                "",
		"2026-12-24T10:00:00":       "",
		"2026-12-2":                 "",
		"soon":                      "",
		"":                          "",
		"2026-12-24T10:00:00." + strings.Repeat("0", 60) + "Z": "",
	} {
		found := ""
		if at, ok := InstantOf(text); ok {
			found = at.Time().Format(time.RFC3339)
		}
		if found != want {
			t.Errorf("%q: found %q, expected %q", text, found, want)
		}
		if n := testing.AllocsPerRun(10, func() { InstantOf(text) }); n != 0 {
			t.Errorf("%q: it allocates %v times", text, n)
		}
	}
}
