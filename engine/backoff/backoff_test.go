package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestNextDoublesUpToMax(t *testing.T) {
	b := Backoff{Min: 100, Max: 1000}
	for range 2 {
		for i, span := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			if wait := b.Next(); wait < span/2 || wait > span {
				t.Errorf("wait %d is %d of a span of %d", i, wait, span)
			}
		}
		b.Reset()
	}
	if wait := (&Backoff{}).Next(); wait != 0 {
		t.Errorf("without bounds: %v", wait)
	}
}

func TestDoubled(t *testing.T) {
	for times, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		if got := Doubled(5, 60, times); got != want {
			t.Errorf("%d times: %v, want %v", times, got, want)
		}
	}
	if got := Doubled(time.Second, time.Minute, 1<<30); got != time.Minute {
		t.Errorf("often: %v", got)
	}
	if got := Doubled(7, 5, 0); got != 5 {
		t.Errorf("above the longest: %v", got)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if !Sleep(ctx, time.Second-1) || time.Since(began) != time.Second-1 {
			t.Error("it did not wait")
		}
		if Sleep(ctx, time.Hour) || time.Since(began) != time.Second {
			t.Error("it outlived its context")
		}
	})
}
