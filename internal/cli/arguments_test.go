package cli

import (
	"testing"
	"time"
)

func TestParseInstant(t *testing.T) {
	now := time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-02-10T11:00:00+01:00": now.Add(-2 * time.Hour),
		"2h":                        now.Add(-2 * time.Hour),
		"2h ago":                    now.Add(-2 * time.Hour),
		"90m ago":                   now.Add(-90 * time.Minute),
		"3d":                        now.Add(-72 * time.Hour),
		"":                          {},
	} {
		if got, err := parseInstant(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-2h", "2026-02-10", "ago", "-1d", "2"} {
		if got, err := parseInstant(text, now); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]Rate{"1/s": 1, "100": 100, "0.5/s": 0.5} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q: %v, %v, want %v", text, r, err, want)
		}
	}
	for _, text := range []string{"0", "-1/s", "fast", "NaN", "1/m", "Inf"} {
		if err := new(Rate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
