package recent

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The part with a property is that of the newest events alone, and of none once they are old.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Share
		var all, with int64
		come := func(n int64, has bool) {
			for range n {
				if has {
					s.Note(func() int64 { return all }, func() int64 { return with })
					with++
				}
				all++
			}
		}
		expect := func(wantEvents, wantHad int64) {
			t.Helper()
			if events, had := s.Since(all, with); events != wantEvents || had != wantHad {
				t.Errorf("%d of %d, want %d of %d", had, events, wantHad, wantEvents)
			}
		}
		expect(0, 0)
		come(1000, false)
		expect(0, 0)
		come(10, true)
		come(90, false)
		expect(100, 10)
		time.Sleep(Span)
		come(5, true)
		expect(105, 15)
		time.Sleep(time.Second) // the first sample is old
		expect(5, 5)
		time.Sleep(Span)
		expect(0, 0)
	})
}

// A count is too low by at most 1 in places+1 of all, and never too high.
func TestMostCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c count[int]
		truth := map[int]int64{}
		for range rapid.IntRange(1, 300).Draw(t, "batches") {
			key, n := rapid.IntRange(0, 20).Draw(t, "key"), int64(rapid.IntRange(1, 50).Draw(t, "n"))
			c.add(key, n)
			truth[key] += n
		}
		told := map[int]int64{}
		for _, k := range c.keys {
			if k.n < 0 {
				t.Fatalf("a place has %d", k.n)
			}
			if k.n > 0 {
				told[k.key] += k.n
			}
		}
		for key, n := range truth {
			if told[key] > n || n-told[key] > c.all/(places+1) {
				t.Fatalf("key %d is told %d, and had %d of %d", key, told[key], n, c.all)
			}
		}
	})
}

func TestMostForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Most[string]
		expect := func(key string, n, all int64) {
			t.Helper()
			if k, had, of := m.Of(100); k != key || had != n || of != all {
				t.Errorf("%q has %d of %d, want %q %d of %d", k, had, of, key, n, all)
			}
		}
		expect("", 0, 0)
		m.Add("a", 60)
		m.Add("b", 39)
		expect("", 0, 0) // too few to tell
		m.Add("b", 2)
		expect("a", 60, 101)
		time.Sleep(Half)
		expect("a", 60, 101) // of the count before, while the new one has too few
		m.Add("c", 100)
		expect("c", 100, 100)
		time.Sleep(2 * Half)
		expect("", 0, 0)
	})
}
