package breaker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errNo = errors.New("answered 503")

// Two calls a minute that all fail are seen within two minutes, and a fifth that fails among
// answers is; a smaller share is not.
//
// Promise(away/partial-failures): `/readyz` stays ok and says which share of a dependency's calls
// failed in 10 minutes, from 4 failures and a fifth of the calls on.
func TestShareSeesAFaultAtLowTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Share
		for n := range 4 {
			if err := s.Err(); err != nil {
				t.Errorf("after %d failures: %v", n, err)
			}
			s.Note(errNo)
			time.Sleep(30 * time.Second)
		}
		if err := s.Err(); err == nil || err.Error() != "4 of 4 calls failed in the last 10 minutes: answered 503" || !errors.Is(err, errNo) {
			t.Errorf("got %v", err)
		}
		for range 16 {
			s.Note(nil)
		}
		if err := s.Err(); err == nil || !strings.HasPrefix(err.Error(), "4 of 20 calls") {
			t.Errorf("at a fifth: %v", err)
		}
		s.Note(nil)
		if err := s.Err(); err != nil {
			t.Errorf("below a fifth: %v", err)
		}
	})
}

// What was ten minutes ago counts no more, and nothing before an outage's end does.
//
// Promise(away/partial-failures)
func TestShareForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Share
		for range 9 {
			s.Note(errNo)
		}
		time.Sleep(9 * time.Minute)
		if s.Err() == nil {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Minute)
		if err := s.Err(); err != nil {
			t.Errorf("after ten minutes: %v", err)
		}
		s.Note(errNo)
		if err := s.Err(); err != nil {
			t.Errorf("an old minute's failures count again: %v", err)
		}
		for range 9 {
			s.Note(errNo)
		}
		s.Forget()
		if err := s.Err(); err != nil {
			t.Errorf("after Forget: %v", err)
		}
	})
}

func BenchmarkShare(b *testing.B) {
	var s Share
	b.ReportAllocs()
	for b.Loop() {
		s.Note(nil)
	}
}
