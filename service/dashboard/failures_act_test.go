package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"keyfold/service/failed"
	"keyfold/source/httpapi"
)

// says checks what stands on a page.
func says(t *testing.T, page string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(read(page), w) {
			t.Errorf("no %q in %s", w, read(page))
		}
	}
}

// An action on failures says first how many would go and how many would be refused again, by
// reason, does that many, and says how many went; the list lacks them from then on.
//
// Promise(dashboard/failures): A plan over failures counts by reason what would go; its button does no more than was counted, and
// only to letters that had failed by then.
func TestActionsOnFailures(t *testing.T) {
	f := failingWith(t, newPile(append(many(30), row(1))...), Config{Actions: true})
	show := with(f.plans.unlockCookie())
	_, page := get(t, f, "/failures", show)
	for _, want := range []string{"failures.retry", "failures.remove", "failures.archive", "retry 5…", "retry 31…"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not offer %s", want)
		}
	}
	plan, done := f.act(t, "retry", url.Values{}, nil)
	says(t, plan, "Retry 31 failures?", "A dry run over all failures", "retry 21", "dead letters of profiles retries_exhausted 20 0", "dead letters of profiles bad_timestamp 0 10", "rows that were set aside in SQL not_published 1 0")
	says(t, done, "✓ Done", "21 of 21 retried", "took 20, skipped 10")
	_, page = get(t, f, "/failures", show)
	says(t, page, "1-10 of 10", "dead letters of profiles: 10")
	if strings.Contains(page, "since the") || strings.Contains(read(page), "retries_exhausted") || strings.Contains(read(page), "fewer since") {
		t.Errorf("what went is listed: %s", read(page))
	}
	plan, _ = f.act(t, "retry", url.Values{"reason": {"bad_timestamp"}}, nil)
	says(t, plan, "Retry 10 failures?", "dead letters of profiles bad_timestamp 0 10")
	if planField.MatchString(plan) {
		t.Error("there is nothing to do, and a button")
	}
	plan, done = f.act(t, "retry", url.Values{"key": {"m-2"}, "where": {failed.Broker}}, nil) // named, it goes all the same
	says(t, plan, "Retry 1 failure?", "letter m-2")
	says(t, done, "1 of 1 retried")
	plan, done = f.act(t, "archive", url.Values{"type": {"search"}}, nil)
	says(t, plan, "Archive 5 failures?", "archive 5")
	says(t, done, "5 of 5 archived")
	plan, done = f.act(t, "remove", url.Values{"user": {"7"}}, nil)
	says(t, plan, "There is no way back")
	says(t, done, "1 of 1 removed")
	plan, _ = f.act(t, "remove", url.Values{"reason": {"none"}}, nil)
	says(t, plan, "Remove 0 failures?", "there is nothing to do")
	says(t, f.text(t, "/audit"), "failures.retry all failures 21 21 done", "failures.remove user 7 1 1 done", "letter m-2")
	if f.pile.two {
		t.Error("two passes were made at once")
	}
}

func (f *failing) text(t *testing.T, path string) string {
	t.Helper()
	_, page := get(t, f, path, with(f.plans.unlockCookie()))
	return page
}

// What went between the plan and the button is said, and what failed since is not touched.
func TestFailuresThatChangeBetweenPlanAndButton(t *testing.T) {
	f := failingWith(t, newPile(many(30)...), Config{Actions: true})
	get(t, f, "/failures")
	later := letter(0, "retries_exhausted")
	later.ID, later.LastFailure = "later", noon.Add(time.Minute)
	_, done := f.act(t, "remove", url.Values{"reason": {"retries_exhausted"}}, func() {
		f.pile.letters[failed.Broker] = append([]failed.Letter{later}, f.pile.letters[failed.Broker][6:]...)
	})
	says(t, done, "16 of 20 removed, the rest gone meanwhile")
	if left := f.pile.letters[failed.Broker]; len(left) != 9 || left[0].ID != "later" {
		t.Errorf("left: %d letters, the first %s", len(left), left[0].ID)
	}
	same := letter(1, "again")
	f.pile.letters[failed.Broker] = []failed.Letter{same, same, same}
	plan, done := f.act(t, "remove", url.Values{"reason": {"again"}}, func() { // as many more of the same second
		f.pile.letters[failed.Broker] = append(f.pile.letters[failed.Broker], same, same)
	})
	says(t, plan, "remove 3")
	says(t, done, "3 of 3 removed")
	if n := len(f.pile.letters[failed.Broker]); n != 2 {
		t.Errorf("%d are left, want the 2 that were not counted", n)
	}
}

// Where the broker dies in the middle, what was confirmed is counted, and the rest is there.
func TestAnActionOnFailuresThatEndsInTheMiddle(t *testing.T) {
	f := failingWith(t, newPile(append(many(30), row(1))...), Config{Actions: true})
	get(t, f, "/failures")
	f.pile.fails = 7
	_, done := f.act(t, "retry", url.Values{}, nil)
	says(t, done, "Not all was done", "8 of 21 retried, the rest is still there", "still among the dead letters, as are those behind")
	if n := len(f.pile.letters[failed.Broker]); n != 23 {
		t.Errorf("%d letters are left", n)
	}
	says(t, f.text(t, "/failures"), "1-23 of 23")
	f.pile.fails = 0
	f.pile.faults[failed.Broker] = errors.New("RabbitMQ is away")
	plan, _ := f.act(t, "remove", url.Values{}, nil)
	says(t, plan, "dead letters of profiles: RabbitMQ is away", "Remove 0 failures?")
	if strings.Contains(read(plan), "nothing to do") {
		t.Error("what cannot be seen is said to be nothing")
	}
}

// Buttons are there for those alone who may act, and forms of others are refused.
func TestWhoMayActOnFailures(t *testing.T) {
	config := onLoopback()
	config.Tokens = []string{admin + " read,admin", reader + " read"}
	config.Sessions = httpapi.NewSessions()
	p := newPile(many(3)...)
	d := shownAs(t, Config{Actions: true, Bodies: true, Sessions: config.Sessions}, Sources{Failures: p.failures(), Look: lookAt(quiet(90))}, p.report(noon.Add(time.Hour)))
	t.Cleanup(func() { d.jobs.close(); d.index.close() })
	s := guarded(t, d, config)
	for _, path := range []string{"/failures", "/failures/m-1?where=broker"} {
		if _, page := get(t, s, path, bearing(reader)); strings.Contains(page, planPath) {
			t.Errorf("%s offers a reader an action", path)
		}
		if _, page := get(t, s, path, bearing(admin)); strings.Count(page, planPath+"failures.remove") != 1 {
			t.Errorf("%s offers no action", path)
		}
	}
	for _, name := range []string{"retry", "remove", "archive"} {
		for token, want := range map[string]int{reader: http.StatusForbidden, "": http.StatusUnauthorized, admin: http.StatusSeeOther} {
			if res := post(s, planPath+"failures."+name, url.Values{"of": {"key=m-1"}}, bearing(token)); res.StatusCode != want {
				t.Errorf("%s with %q: %d, want %d", name, token, res.StatusCode, want)
			}
		}
	}
	cross := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if res := post(s, "/failures/m-1?where=broker", nil, bearing(admin), cross); res.StatusCode != http.StatusForbidden {
		t.Errorf("a body for another site: %d", res.StatusCode)
	}
	if len(p.letters[failed.Broker]) != 3 {
		t.Error("something was done without a button")
	}
}
