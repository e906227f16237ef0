package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/failed"
)

// The page has what the commands print of the same letters: each line of the list, and the counts.
//
// Promise(dashboard/same-failures): The page of failures has every line and count that `keyfold failed list` and
// `failed stats` print of the same letters.
func TestThePageOfFailuresHasWhatTheCommandsPrint(t *testing.T) {
	letters := many(40)
	f := failingWith(t, newPile(append(letters, row(1), row(2))...), Config{})
	_, page := get(t, f, "/failures")
	text := read(page)
	counts := failed.NewCounts()
	for _, l := range append(letters, row(1), row(2)) {
		for i, cell := range l.Row(*f.now) {
			if i != 6 && !strings.Contains(text, cell) { // the age: the page has the time
				t.Errorf("%s: no %q in %s", l.ID, cell, text)
			}
		}
		counts.Add(&l)
	}
	for reason, n := range counts.Reasons {
		sum := 0
		for _, found := range regexp.MustCompile(regexp.QuoteMeta(reason)+` (?:product_view|search) (\d+)`).FindAllStringSubmatch(text, -1) {
			one := 0
			_, _ = fmt.Sscan(found[1], &one)
			sum += one
		}
		if sum != n {
			t.Errorf("the groups of %s have %d letters, the command counts %d:\n%s", reason, sum, n, text)
		}
	}
	for _, want := range []string{fmt.Sprintf("1-%d of %d", counts.Letters, counts.Letters), "oldest failure " + cli.At(*counts.Oldest), "newest " + cli.At(*counts.Newest), "Failures 42"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

var rowIDsShown = regexp.MustCompile(`/failures/((?:m|row)-\d+)\?`)

// all follows the links of a filter from page to page, and returns the ids in their order.
func (f *failing) all(t *testing.T, query string) (ids []string) {
	t.Helper()
	for path := "/failures?" + query; path != ""; {
		res, page := get(t, f, path)
		if res.StatusCode != http.StatusOK || len(page) > 60<<10 {
			t.Fatalf("%s: %d with %d bytes", path, res.StatusCode, len(page))
		}
		found := rowIDsShown.FindAllStringSubmatch(page, -1)
		if len(found) > failuresShown {
			t.Errorf("%s has %d rows", path, len(found))
		}
		for _, one := range found {
			ids = append(ids, one[1])
		}
		path = ""
		if next := regexp.MustCompile(`<a href="([^"]*)">next</a>`).FindStringSubmatch(page); next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	return ids
}

// Filters stand in the URL, and each letter they mean is on one page, the oldest first.
func TestFiltersAndPagesOfFailures(t *testing.T) {
	letters := many(137)
	f := failingWith(t, newPile(append(letters, row(3))...), Config{})
	for query, means := range map[string]func(*failed.Letter) bool{
		"":                     func(*failed.Letter) bool { return true },
		"reason=bad_timestamp": func(l *failed.Letter) bool { return l.Reason == "bad_timestamp" },
		"type=search&user=3":   func(l *failed.Letter) bool { return l.Type == "search" && l.User == "3" },
		"error=TIMEOUT+2":      func(l *failed.Letter) bool { return strings.Contains(l.LastError(), "timeout 2") },
		"older=2h":             func(l *failed.Letter) bool { return l.LastFailure.Before(f.now.Add(-2 * time.Hour)) },
		"where=sql":            func(l *failed.Letter) bool { return l.Where == failed.SQL },
		"id=m-13":              func(l *failed.Letter) bool { return strings.Contains(l.ID, "m-13") },
		"reason=none+such":     func(*failed.Letter) bool { return false },
	} {
		var want []string
		for _, l := range slices.Backward(append(slices.Clone(letters), row(3))) {
			if means(&l) {
				want = append(want, l.ID)
			}
		}
		got := f.all(t, query)
		if query == "" { // the row failed with m-3
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d letters %.200q, want %d %.200q", query, len(got), got, len(want), want)
		}
	}
	if f.pile.passes != 2 {
		t.Errorf("%d passes were made, want one over each of two places", f.pile.passes)
	}
	if _, page := get(t, f, "/failures?older=soon"); !strings.Contains(read(page), `"soon": it must be a length of time`) {
		t.Errorf("a filter that is none: %s", read(page))
	}
	for _, path := range []string{"/failures?page=99", "/failures?page=-1", "/failures?page=x"} {
		if res, page := get(t, f, path); res.StatusCode != http.StatusOK || !strings.Contains(read(page), " of 138") {
			t.Errorf("%s: %d %s", path, res.StatusCode, read(page))
		}
	}
}

// A pass is made once for all viewers: at once where little waits, and else when a person asks;
// refreshes and looks at the installation make none.
//
// Promise(dashboard/one-pass): The page of failures reads up to 2,000 at once, more when asked; one pass serves all viewers, and
// no refresh makes another.
// Promise(dashboard/under-way)
func TestAPassIsMadeWhenAsked(t *testing.T) {
	small := failingWith(t, newPile(many(readAtOnce)...), Config{})
	for range 5 {
		get(t, small, "/failures")
		small.look()
	}
	if small.pile.passes != 2 {
		t.Errorf("%d passes", small.pile.passes)
	}
	large := failingWith(t, newPile(many(readAtOnce+1)...), Config{})
	_, page := get(t, large, "/failures")
	if text := read(page); large.pile.passes != 0 || !strings.Contains(text, "dead letters of profiles: 2,001") || !strings.Contains(text, "read them") || strings.Contains(text, "m-1 ") {
		t.Errorf("%d passes, and the page %s", large.pile.passes, text)
	}
	if res, _ := get(t, large, "/failures?read=again", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); res.StatusCode != http.StatusSeeOther || large.pile.passes != 0 {
		t.Error("another site makes a pass")
	}
	large.pile.hold = make(chan struct{})
	res, _ := get(t, large, "/failures?read=again&reason=bad_timestamp&page=2")
	if to := res.Header.Get("Location"); to != "/failures?page=2&reason=bad_timestamp" {
		t.Errorf("it leads to %s", to)
	}
	get(t, large, "/failures?read=again")
	if _, page = get(t, large, "/failures"); !strings.Contains(read(page), "are being read since") || !strings.Contains(read(page), "0 of 2,001") || !strings.Contains(page, renewed) {
		t.Errorf("during the pass: %s", read(page))
	}
	close(large.pile.hold)
	<-large.index.begin() // that under way, or one more
	large.await(t)
	if _, page = get(t, large, "/failures?page=2"); !strings.Contains(read(page), "51-100 of 2001") || strings.Contains(page, renewed) || large.pile.two {
		t.Errorf("after the pass: %s", read(page))
	}
	large.pile.hold = make(chan struct{})
	done := large.index.begin()
	if _, page = get(t, large, "/failures"); !strings.Contains(read(page), "are being read since") || strings.Contains(page, renewed) {
		t.Errorf("a list with a form, during the next pass: %s", read(page))
	}
	close(large.pile.hold)
	<-done
}

// await waits until no pass is under way.
func (f *failing) await(t testing.TB) {
	t.Helper()
	for f.index.state().pass != nil {
		time.Sleep(time.Millisecond)
	}
}

// The page says of when it is, how many came or went since, and where another tool has letters in
// its hands.
func TestThePageOfFailuresSaysOfWhenItIs(t *testing.T) {
	f := failingWith(t, newPile(many(31)...), Config{})
	if _, page := get(t, f, "/failures"); strings.Contains(read(page), "since read") || strings.Contains(read(page), "another tool") || !strings.Contains(read(page), "as of 2026-11-23") {
		t.Errorf("at first: %s", read(page))
	}
	change := func(n int) string {
		f.pile.letters[failed.Broker] = many(n)
		f.look()
		_, page := get(t, f, "/failures")
		return read(page)
	}
	for _, c := range []struct {
		n    int
		want string
	}{{35, "4 more since"}, {20, "11 fewer since"}} {
		if text := change(c.n); !strings.Contains(text, c.want) || !strings.Contains(text, " of 31") || !strings.Contains(text, fmt.Sprintf("Failures %d", c.n)) {
			t.Errorf("%d: no %q in %s", c.n, c.want, text)
		}
	}
	r, held := f.pile.report(f.now.Add(statistics)), 5
	r.Queues[2].Unacknowledged = &held
	f.watch.take(r.At, r, nil)
	if _, page := get(t, f, "/failures"); !strings.Contains(read(page), "another tool reads them") {
		t.Errorf("what another tool holds: %s", read(page))
	}
	f.pile.hides = 6
	f.pile.faults[failed.SQL] = errors.New("MariaDB is away")
	<-f.index.begin()
	f.look()
	if _, page := get(t, f, "/failures"); !strings.Contains(read(page), "dead letters of profiles: 20 another tool reads them") || !strings.Contains(read(page), "MariaDB is away") || !strings.Contains(read(page), "1-14 of 14") {
		t.Errorf("a pass that met fewer: %s", read(page))
	}
}

// An index is bounded, and says so.
func TestTheIndexIsBounded(t *testing.T) {
	f := failingWith(t, newPile(many(failed.MaxLetters+500)...), Config{})
	<-f.index.begin()
	_, page := get(t, f, "/failures?page=2000")
	if text := read(page); !strings.Contains(text, "500 more are not read, the list is full") || !strings.Contains(text, "99951-100000 of 100000") {
		t.Errorf("the page is %s", text)
	}
}

// Problems of failures lead to their page, and so does the search of an id.
func TestWhatLeadsToFailures(t *testing.T) {
	d := shownAs(t, Config{Path: "/ops"}, Sources{Failures: newPile().failures(), Users: newShop().users(), Look: lookAt(faulty(90))}, faulty(90))
	s := guarded(t, d, onLoopback())
	for _, path := range []string{"/ops/", "/ops/alerts"} {
		if _, page := get(t, s, path); strings.Count(page, `href="/ops/failures">see them`) != 1 || !strings.Contains(page, `data-key="f">Failures <b class="count">32</b>`) {
			t.Errorf("%s does not lead to them", path)
		}
	}
	for q, want := range map[string]string{
		"3f9a41": "/ops/failures?id=3f9a41", "17": "/ops/users/17", "disk full": "/ops/runbook?q=disk+full", "disk": "/ops/runbook?q=disk", "letter-00ff": "/ops/failures?id=letter-00ff",
	} {
		if res, _ := get(t, s, "/ops/search?q="+url.QueryEscape(q)); res.Header.Get("Location") != want {
			t.Errorf("%q leads to %s", q, res.Header.Get("Location"))
		}
	}
	without := guarded(t, shownAs(t, Config{}, Sources{}, faulty(90)), onLoopback())
	if _, page := get(t, without, "/"); strings.Contains(page, "/failures") {
		t.Error("without failures a page leads to them")
	}
}
