package main

import (
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	for text, want := range map[string]time.Duration{"200/s": 5 * time.Millisecond, "1000/min": 60 * time.Millisecond, "1e6/s": time.Microsecond, "2": 500 * time.Millisecond, "1/h": time.Hour} {
		if r := (rate{}); r.UnmarshalText([]byte(text)) != nil || r.pause != want {
			t.Errorf("%s: a pause of %v, want %v", text, r.pause, want)
		}
	}
	for _, text := range []string{"0/s", "-1/s", "NaN/s", "Inf/s", "1e12/s", "5/day", ""} {
		if err := new(rate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a rate", text)
		}
	}
}
