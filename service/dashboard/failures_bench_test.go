package dashboard

import (
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/service/failed"
)

// full is a dashboard with an index that is full.
func full(t testing.TB) *failing {
	t.Helper()
	letters := many(failed.MaxLetters)
	for i := range letters {
		l := &letters[i]
		l.ID = fmt.Sprintf("3f9a41c2-8b1d-4e55-9c06-%012d", i)
		l.Errors = []string{fmt.Sprintf("store: write of user %d was refused after 3 attempts: connection reset by peer while it read the answer, request %d", i%5000, i)}
	}
	f := failingWith(t, newPile(letters...), Config{})
	<-f.index.begin()
	f.pile.mu.Lock()
	f.pile.letters = nil
	f.pile.mu.Unlock()
	return f
}

// The page of a full index. The time of the slowest of a hundred requests is reported too.
func BenchmarkFailuresPage(b *testing.B) {
	f := full(b)
	for _, query := range []string{"", "error=request+77", "reason=bad_timestamp&page=400", "user=3&type=search"} {
		b.Run(strings.ReplaceAll(query, "=", ":"), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				get(b, f, "/failures?"+query)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-ms")
		})
	}
}

// A full index of letters as workers write them stays within its bound, and so does one of the
// longest texts, which holds fewer.
//
// Promise(dashboard/index): The index of 100,000 dead letters takes less than 64 MB, whatever their texts; the page of it stays
// below 60 KB.
func TestAFullIndexStaysWithinItsBound(t *testing.T) {
	held := func(make func(i int) failed.Letter) (letters int, bytes uint64) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var index failed.Index
		for i := range failed.MaxLetters {
			if l := make(i); !index.Add(&l) {
				break
			}
		}
		all := index.Letters()
		runtime.GC()
		runtime.ReadMemStats(&after)
		letters, bytes = len(all), after.HeapAlloc-min(before.HeapAlloc, after.HeapAlloc)
		runtime.KeepAlive(all)
		return letters, bytes
	}
	usualError := strings.Repeat("e", 110)
	usual, bytes := held(func(i int) failed.Letter {
		l := letter(i, "retries_exhausted")
		l.ID, l.Errors = fmt.Sprintf("3f9a41c2-8b1d-4e55-9c06-%012d", i), []string{usualError + fmt.Sprintf("%09d", i)}
		return l
	})
	t.Logf("%d letters take %.1f MB", usual, float64(bytes)/(1<<20))
	if usual != failed.MaxLetters || bytes > failed.MaxBytes {
		t.Errorf("%d letters take %d bytes", usual, bytes)
	}
	wide := strings.Repeat("\U0001F600", 130)
	long, bytes := held(func(i int) failed.Letter {
		text := fmt.Sprintf("%09d", i) + wide
		return failed.Letter{Where: failed.Broker, ID: text, User: text, Type: text, Reason: text, Errors: []string{text}}
	})
	t.Logf("%d letters of the longest texts take %.1f MB", long, float64(bytes)/(1<<20))
	if long == 0 || long == failed.MaxLetters || bytes > failed.MaxBytes {
		t.Errorf("%d letters of the longest texts take %d bytes", long, bytes)
	}
}

// The page of the longest texts is bounded too, with every button.
func TestThePageOfTheLongestTextsIsBounded(t *testing.T) {
	for _, one := range []string{`"`, "\U0001F600", "<", "w"} {
		var letters []failed.Letter
		for i := range 200 {
			text := fmt.Sprintf("%03d", i) + strings.Repeat(one, 300)
			letters = append(letters, failed.Letter{Where: failed.Broker, ID: text, User: text, Type: text, Reason: text, Errors: slices.Repeat([]string{text}, 40), LastFailure: noon, Headers: map[string]string{text: text}, Body: []byte(text)})
		}
		f := failingWith(t, newPile(letters...), Config{Actions: true, Bodies: true})
		show := with(f.plans.unlockCookie())
		b := letters[0].Brief()
		for _, path := range []string{"/failures", "/failures?" + url.Values{"user": {b.User}, "error": {one}, "page": {"3"}}.Encode(), letterPath(failed.Broker, b.Key())} {
			if _, page := get(t, f, path, show); len(page) > 60<<10 {
				t.Errorf("%q: %.60s has %d bytes", one, path, len(page))
			}
		}
	}
}
