package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/service/notify/api"
)

// deciding serves the pages of an office.
func deciding(t testing.TB, p *office, config Config) *Dashboard {
	t.Helper()
	d := shownAs(t, config, Sources{Users: newShop().users(), Look: lookAt(quiet(90)), Notifications: p.notifications(), Rules: p.rules()}, nil)
	t.Cleanup(d.results.close)
	return d
}

// missing tells which words of what a command prints a page lacks, and returns how many were compared.
func missing(t *testing.T, what, page, printed string) (compared int) {
	t.Helper()
	seen := read(page)
	for word := range strings.FieldsSeq(printed) {
		compared++
		if !strings.Contains(seen, strings.Trim(word, `,:"()`)) {
			t.Errorf("%s: the page lacks %q", what, word)
		}
	}
	return compared
}

// The page of a notification has what the command prints with its stages, word by word: both show one
// explanation.
//
// Promise(dashboard/same-explanation): The page of a notification has every word that `notify event show --stages` prints of
// the same decisions but the title, and no text of the notification.
func TestTheDecisionsPageHasWhatTheCommandPrints(t *testing.T) {
	p := newPost()
	s := guarded(t, deciding(t, p, Config{}), onLoopback())
	var printed strings.Builder
	api.Print(&cli.Text{W: &printed}, api.ExplainAll(p.turns), true)
	_, page := get(t, s, decisionPath+orderID.String())
	if n := missing(t, "the page of a notification", page, strings.ReplaceAll(printed.String(), "stages:", "Stages")); n < 100 {
		t.Errorf("only %d words were compared", n)
	}
	for _, want := range []string{"① LATER", "② NOW", "waits until", `href="/users/17"`, "A rule nearly matched", "DELIVERED", "0198c8f0-7a00-7000-8000-000000000001"} {
		if !strings.Contains(read(page)+page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "asked for") {
		t.Error("a decision is marked, and none was asked for")
	}
	if _, page = get(t, s, decisionPath+secondID.String()); strings.Count(page, "(asked for)") != 1 {
		t.Error("the decision that was asked for is not marked")
	}
	for path, want := range map[string]int{decisionPath + "0198c8f0-7a00-7000-8000-00000000000f": 404, decisionPath + "x": 404, decisionPath + "x/y": 404} {
		if res, _ := get(t, s, path); res.StatusCode != want {
			t.Errorf("%s is answered with %d", path, res.StatusCode)
		}
	}
}

// Title and text are shown where the dashboard was started so, by a form, and each showing is a line
// of the audit log.
func TestTextsOfNotificationsAreShownOnDemand(t *testing.T) {
	path := decisionPath + orderID.String()
	without := guarded(t, deciding(t, newPost(), Config{}), onLoopback())
	if _, page := get(t, without, path); strings.Contains(page, "show title and text") || strings.Contains(page, "Order 1001") {
		t.Error("texts are offered, or shown")
	}
	if res := post(without, path, nil); res.StatusCode != http.StatusForbidden {
		t.Errorf("texts that are not shown: %d", res.StatusCode)
	}
	d := deciding(t, newPost(), Config{Bodies: true})
	s := guarded(t, d, onLoopback())
	if _, page := get(t, s, path); !strings.Contains(page, "show title and text") || strings.Contains(page, "Order 1001") {
		t.Error("texts are not offered, or shown at once")
	}
	if page := body(t, post(s, path, nil)); !strings.Contains(page, "Order 1001 shipped") || !strings.Contains(page, "It is on its way") {
		t.Errorf("the texts are not shown: %s", page)
	}
	if shown, _ := d.journal.last(9); len(shown) != 1 || shown[0].Action != "notifications.show" || strings.Contains(shown[0].Of+shown[0].Result, "Order") {
		t.Errorf("the audit log has %+v", shown)
	}
}

// The page of all decisions has hours by outcome and reason, what waits and what is not reported.
func TestNotificationsShowTheirCounts(t *testing.T) {
	p := newPost()
	s := guarded(t, deciding(t, p, Config{}), onLoopback())
	_, page := get(t, s, notificationsPath)
	seen := read(page)
	for _, want := range []string{
		"Decisions of the last 24 hours: 29,688", "SCORE_HIGH 28,800 97.0 %", "LATER FATIGUE_CAP_5M 720", "Waiting: 17", "UPDATE 3 0 2", "all 3 0 2 0 12",
		"The oldest one was due 16m ago", "Not reported: 31", "Counted at 2026-11-23",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("the page lacks %q: %s", want, seen)
		}
	}
	if strings.Count(page, `class="plot"`) != 2 || strings.Count(page, "<tr><td>") < 48 || len(page) > 60<<10 {
		t.Errorf("the page of %d bytes has no plots with their tables", len(page))
	}
}

// What is looked for by its id is shown, and a user's decisions by the user's id.
func TestNotificationsAreFound(t *testing.T) {
	p := newPost()
	s := guarded(t, deciding(t, p, Config{Path: "/at"}), onLoopback())
	for path, want := range map[string]string{
		"/at/notifications?q=" + orderID.String(): "/at" + decisionPath + orderID.String(),
		"/at/search?q=" + firstID.String():        "/at" + decisionPath + firstID.String(),
		"/at/search?q=17":                         "/at/users/17",
		"/at/search?q=disk":                       "/at/runbook?q=disk",
	} {
		if res, _ := get(t, s, path); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != want {
			t.Errorf("%s leads to %q", path, res.Header.Get("Location"))
		}
	}
	_, page := get(t, s, "/at/notifications?q=17")
	for _, want := range []string{`href="/at/users/17"`, `href="/at/notifications/` + orderID.String() + `"`, `href="/at/notifications/` + firstID.String() + `"`, "LATER", "waits until"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a user's decisions lacks %q", want)
		}
	}
	if _, page = get(t, s, "/at/notifications?q=anon-77"); !strings.Contains(page, "alias of user 17") {
		t.Error("an alias is not named")
	}
	if _, page = get(t, s, "/at/notifications?q=none"); !strings.Contains(page, "No notification was decided for a user of this id") {
		t.Error("it is not said that nothing is stored")
	}
	p.fault = errLedgerAway
	_, page = get(t, s, "/at/notifications?q=17")
	if strings.Count(page, "PostgreSQL does not listen") < 1 || !strings.Contains(page, "the page of user 17") {
		t.Error("it is not said that the ledger is away")
	}
	// Without pages of users and of the installation, the first page is that of notifications.
	alone := guarded(t, shownAs(t, Config{}, Sources{Notifications: newPost().notifications(), Rules: newPost().rules()}, nil), onLoopback())
	for path, want := range map[string]string{"/": notificationsPath, "/search?q=anna": notificationsPath + "?q=anna", "/search?q=17": notificationsPath + "?q=17"} {
		if res, _ := get(t, alone, path); res.Header.Get("Location") != want {
			t.Errorf("%s leads to %q", path, res.Header.Get("Location"))
		}
	}
	if res, _ := get(t, alone, "/workers"); res.StatusCode != http.StatusNotFound {
		t.Errorf("workers: %d", res.StatusCode)
	}
}

// A closed hour is counted once, and the hour under way again after 30 s. A ledger that is away
// leaves what is known.
//
// Promise(dashboard/counted-once): A closed hour of decisions is counted once for all viewers, an open one each 30 s at most.
func TestAClosedHourIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost()
		d := shownAs(t, Config{Now: time.Now}, Sources{Notifications: p.notifications()}, nil)
		s := guarded(t, d, onLoopback())
		look := func(after time.Duration) string {
			time.Sleep(after)
			_, _ = get(t, s, notificationsPath)
			synctest.Wait()
			_, page := get(t, s, notificationsPath)
			return read(page)
		}
		time.Sleep(30 * time.Minute) // into the hour
		for range 5 {
			look(time.Second)
		}
		newest := time.Now().UTC().Truncate(time.Hour)
		if len(p.counted) != tallied || p.counted[newest] != 1 {
			t.Errorf("%d hours are counted, the newest %d times", len(p.counted), p.counted[newest])
		}
		look(keepFor)
		if p.counted[newest] != 2 || p.counted[newest.Add(-time.Hour)] != 1 {
			t.Errorf("the newest hour is counted %d times, the one before %d times", p.counted[newest], p.counted[newest.Add(-time.Hour)])
		}
		p.fault = errLedgerAway
		if seen := look(keepFor); !strings.Contains(seen, "PostgreSQL does not listen") || !strings.Contains(seen, "last 24 hours: 29,688") {
			t.Errorf("while the ledger is away: %s", seen)
		}
		p.fault = nil
		look(time.Hour) // its last decisions may come late: it is counted once more, behind its end
		look(time.Hour)
		if p.counted[newest] != 3 && p.counted[newest] != 4 {
			t.Errorf("an hour is counted %d times", p.counted[newest])
		}
		before := p.counted[newest]
		look(time.Hour)
		if p.counted[newest] != before {
			t.Error("a closed hour is counted again")
		}
		d.results.close()
	})
}

// A bound is said: an hour with more than can be counted, one that takes too long, and hours that
// were not reached yet while others are shown.
func TestBoundsOfCountsAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost()
		hold, newest := make(chan struct{}), time.Now().UTC().Truncate(time.Hour)
		p.counts = func(from time.Time, most int64) ([]DecisionCount, error) {
			switch from {
			case newest.Add(-time.Hour):
				return []DecisionCount{{notify.Now, "", most}}, nil
			case newest.Add(-2 * time.Hour):
				if most > fewInHour+1 {
					return nil, fmt.Errorf("counts: %w", ErrTooMany)
				}
				return []DecisionCount{{notify.Later, "", most}}, nil
			case newest.Add(-3 * time.Hour):
				return nil, ErrTooMany
			case newest.Add(-4 * time.Hour):
				<-hold
			}
			return nil, nil
		}
		p.waiting = []WaitingCount{{Type: "UPDATE", Minute: mostWaiting}}
		d := shownAs(t, Config{Now: time.Now}, Sources{Notifications: p.notifications()}, nil)
		s := guarded(t, d, onLoopback())
		_, page := get(t, s, notificationsPath)
		for _, want := range []string{"20 hours not counted yet", "over 1,000,000", "over 20,000", "1 hour cannot be counted within 2 s", "They are being counted"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		close(hold)
		synctest.Wait()
		if _, page = get(t, s, notificationsPath); strings.Contains(page, "not counted yet") || !strings.Contains(page, "Waiting: over 100,000") {
			t.Error("the page does not have what was counted meanwhile")
		}
		d.results.close()
	})
}

// Whatever stands in a text of a decision or of a set of rules is text on every page.
//
// Promise(dashboard/inert)
func TestHostileTextsOfNotificationsAreInert(t *testing.T) {
	all := []string{notificationsPath, notificationsPath + "?q=17", decisionPath + orderID.String(), rulesPath, rulesPath + "/42", rulesPath + "/42/diff/41"}
	ours := map[string][]string{}
	clean := guarded(t, deciding(t, newPost(), Config{}), onLoopback())
	for _, path := range all {
		_, page := get(t, clean, path)
		ours[path] = elements(page)
	}
	for _, text := range hostile {
		p := newPost()
		p.counts = func(time.Time, int64) ([]DecisionCount, error) { return []DecisionCount{{notify.Now, text, 3}}, nil }
		fill(reflect.ValueOf(&p.waiting), text)
		fill(reflect.ValueOf(p.user), text)
		for i := range p.turns {
			fill(reflect.ValueOf(&p.turns[i].Record), text)
		}
		fill(reflect.ValueOf(&p.sets), text)
		fill(reflect.ValueOf(&p.shadow), text)
		p.document = []byte(`{"rules":[{"rule_id":` + quoted(text) + `,"name":` + quoted(text) + `,"version":` + quoted(text) + `,"description":` + quoted(text) + `,"conditions":{"value":` + quoted(text) + `},"enabled":false}]}`)
		d := deciding(t, p, Config{})
		s := guarded(t, d, onLoopback())
		for _, path := range all {
			res, page := get(t, s, path)
			if res.StatusCode != http.StatusOK || len(page) > 60<<10 {
				t.Errorf("%.30q: %s is answered %d with %d bytes", text, path, res.StatusCode, len(page))
			}
			if !utf8.ValidString(page) || strings.ContainsFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) && r != '\u00a0' }) {
				t.Errorf("%.30q: %s has a character that commands", text, path)
			}
			for _, one := range elements(page) {
				if !slices.Contains(ours[path], one) && one != "span" {
					t.Errorf("%.30q: %s has the element or attribute %q", text, path, one)
				}
			}
		}
		if res, page := get(t, s, notificationsPath+"?"+url.Values{"q": {short(text)}}.Encode()); res.StatusCode != http.StatusOK || strings.Contains(page, "<script>") {
			t.Errorf("%.30q: the search is answered %d", text, res.StatusCode)
		}
	}
}

func quoted(text string) string {
	escaped, _ := json.Marshal(text) // of a text
	return string(escaped)
}

func TestTheLedgerMayBeAway(t *testing.T) {
	p := newPost()
	p.fault = errLedgerAway
	s := guarded(t, deciding(t, p, Config{}), onLoopback())
	for _, path := range []string{notificationsPath, decisionPath + orderID.String(), rulesPath, rulesPath + "/42", rulesPath + "/42/diff/41"} {
		res, page := get(t, s, path)
		if res.StatusCode != http.StatusOK || !strings.Contains(page, errLedgerAway.Error()) {
			t.Errorf("%s is answered %d without why", path, res.StatusCode)
		}
	}
}
