package dashboard

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/explanation"
)

var numbers = regexp.MustCompile(`[-\d.,]*\d( %)?`)

// The page and the commands show one value: each figure that these print is on the page.
//
// Promise(dashboard/user): The page of a user shows the figures that `user show` and `user explain` print,
// from the same value.
func TestTheUsersPageHasWhatTheCommandsPrint(t *testing.T) {
	s := newShop()
	d := people(t, s, Config{})
	_, page := get(t, guarded(t, d, onLoopback()), "/users/17?without=last-session&half-life=1h")
	text := strings.ReplaceAll(read(page), "&#34;", `"`)

	var printed bytes.Buffer
	shown, err := s.users().Show(t.Context(), 17, 10, 15)
	must.OK(t, err)
	shown.View.Print(&cli.Text{W: &printed})
	asked := explanation.Options{Events: 15, Near: 10, Last: 15, Together: true, Without: []string{explanation.LastSession}, HalfLife: time.Hour}
	view, err := s.explain(t.Context(), s.profile, asked)
	must.OK(t, err)
	view.Print(&cli.Text{W: &printed})
	lines := strings.Split(printed.String(), "\n")
	if len(lines) < 50 {
		t.Fatalf("the commands print %s", &printed)
	}
	for _, l := range lines {
		if strings.Contains(l, " left)") { // the head of a table: the page has no weight that is left
			continue
		}
		if at := strings.Index(l, "%  "); strings.HasPrefix(l, "    ") && strings.Contains(l, "T") && at > 0 {
			l = l[:at]
		}
		for _, f := range numbers.FindAllString(leftAfter.ReplaceAllString(l, ""), -1) {
			if !strings.Contains(text, f) {
				t.Errorf("the page has no %q of %q", f, l)
			}
		}
	}
	for _, name := range []string{"trail running shoes", "winter boots", `"boots for winter"`, "product 6", "without last-session (2 events)", "at a half-life of 1h"} {
		if !strings.Contains(text, name) {
			t.Errorf("the page has no %s: %s", name, text)
		}
	}
}

// leftAfter is how much of an event's weight is left, which the page leaves out.
var leftAfter = regexp.MustCompile(`\s+\d+ %  `)

// A product that came nearer by the last write is marked, with the events that did it.
func TestWhatTheLastWriteChangedIsMarked(t *testing.T) {
	s := newShop()
	_, page := get(t, guarded(t, people(t, s, Config{}), onLoopback()), "/users/17")
	text := read(page)
	for _, want := range []string{"marked: what the last write changed, of 2 events", "▲ up from 3: ", " of it from 2 events, most from product_purchase hiking boots", "▼ down from 1: the last write led away from it"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q: %s", want, text)
		}
	}

	fresh := &shop{products: s.products, phrases: s.phrases}
	fresh.add("a", noon, profile.ProductView, 5, "")
	fresh.fold()
	_, page = get(t, guarded(t, people(t, fresh, Config{}), onLoopback()), "/users/17")
	if text := read(page); !strings.Contains(text, "this is the first write, of 1 event") || strings.Contains(text, "▲") || strings.Contains(text, "▼") {
		t.Errorf("the first write: %s", text)
	}
}

// An event waits with a countdown, and is late where its window is long over.
func TestWaitingEvents(t *testing.T) {
	for _, test := range []struct {
		since []time.Duration // before now
		want  string
	}{
		{nil, ""},
		{[]time.Duration{time.Second}, "1 event waits for its window, which is written in 4 s"},
		{[]time.Duration{1500 * time.Millisecond}, "written in 4 s"},
		{[]time.Duration{13 * time.Second, time.Second}, "2 events wait for their window, which is written in 2 s"}, // the longest wait
		{[]time.Duration{6 * time.Second}, "1 event waits for its window, which is being written"},
		{[]time.Duration{time.Minute}, "1 event waits for its window, and should have been written by now"},
	} {
		s := newShop()
		now := noon.Add(89 * sampleEvery)
		for i, ago := range test.since {
			s.add("w"+string(rune('0'+i)), now.Add(-ago), profile.ProductView, 2, "")
		}
		_, page := get(t, guarded(t, people(t, s, Config{}), onLoopback()), "/users/17")
		if waits := strings.Contains(page, `class="waits"`); waits != (test.want != "") || !strings.Contains(read(page), test.want) {
			t.Errorf("%v: no %q in %s", test.since, test.want, read(page))
		}
		if got := strings.Count(page, "</b> waits<"); got != len(test.since) {
			t.Errorf("%v: %d rows wait", test.since, got)
		}
	}
}

// Whatever stands in a phrase, a name or an id is text.
func TestHostileTextsOfUsersAreInert(t *testing.T) {
	s := newShop()
	s.add("w", noon, profile.Search, 0, "waits")
	_, clean := get(t, guarded(t, people(t, s, Config{}, withNotified), onLoopback()), "/users/17?without=last-session&half-life=1h")
	ours := append(elements(clean), " role=", " aria-label=", " selected=")
	for _, text := range hostile {
		s := newShop()
		for i := range s.products {
			s.products[i].Name, s.products[i].Category = text, text
		}
		s.phrases[text] = s.phrases["running"]
		s.events[0].Phrase = text
		s.events[1].MessageID = text[:min(len(text), 128)]
		s.add("w", noon, profile.Search, 0, text)
		d := people(t, s, Config{}, withNotified, func(u *Users) {
			before := u.Notified
			u.Notified = func(ctx context.Context, user int32) (*Notified, error) {
				n, err := before(ctx, user)
				fill(reflect.ValueOf(n), text)
				return n, err
			}
		})
		for _, path := range []string{
			"/users/17", "/users/17?without=" + url.QueryEscape(short(text)), "/users/17?half-life=" + url.QueryEscape(short(text)), "/users?q=" + url.QueryEscape(text[:min(len(text), 3000)]),
		} {
			res, page := get(t, guarded(t, d, onLoopback()), path)
			if res.StatusCode != http.StatusOK || len(page) > 60<<10 {
				t.Errorf("%.30q: %.60s is answered %d with %d bytes", text, path, res.StatusCode, len(page))
			}
			if !utf8.ValidString(page) || strings.ContainsFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) && r != '\u00a0' }) {
				t.Errorf("%.30q: %.60s has a character that commands", text, path)
			}
			for _, one := range elements(page) {
				if strings.HasPrefix(path, "/users/17") && !slices.Contains(ours, one) {
					t.Errorf("%.30q: %.60s has the element or attribute %q", text, path, one)
				}
			}
		}
	}
}

func withNotified(u *Users) {
	u.Notified = func(context.Context, int32) (*Notified, error) {
		return &Notified{
			Decided: []Decided{{At: noon, Outcome: "LATER", Type: "UPDATE", Reasons: "FATIGUE_CAP_5M", EventID: "e1"}},
			Waiting: []Deferred{{Due: "2026-11-23T13:00:00Z", Type: "PROMO", EventID: "e2", Turn: 2}},
		}, nil
	}
}

// What cannot be shown is said in its place, as the commands say it; the rest of the page stands.
func TestUsersWithoutAProfileAndSourcesThatAreAway(t *testing.T) {
	erased, unknown, away, phrases, otherModel := newShop(), newShop(), newShop(), newShop(), newShop()
	erased.profile = &profile.Profile{UserID: 17, Version: 3, ErasedAt: engine.MillisOf(noon)}
	unknown.profile, unknown.events = nil, nil
	unknown.add("w", noon.Add(89*sampleEvery), profile.Search, 0, "running")
	away.away = errAway
	phrases.phrasesAt = errAway
	otherModel.profile.Model = "another"
	for name, test := range map[string]struct {
		shop *shop
		want []string
		not  []string
	}{
		"erased":      {erased, []string{"user 17 was erased at 2026-11-23T12:05:10Z", "FATIGUE_CAP_5M"}, []string{"Nearest products", "Recommended"}},
		"unknown":     {unknown, []string{"user 17 has no profile in the database shop", "1 event waits", `search "running"`, "FATIGUE_CAP_5M"}, []string{"Nearest products"}},
		"away":        {away, []string{"the profile cannot be read now: " + errAway.Error(), "FATIGUE_CAP_5M"}, []string{"Nearest products"}},
		"phrases":     {phrases, []string{"which events put products there is not known: " + errAway.Error(), "hiking boots", "0.8", "mass"}, []string{"What the vector is made of"}},
		"other model": {otherModel, []string{`was made with vectors of the model "another"`, "hiking boots"}, []string{"What the vector is made of"}},
	} {
		res, page := get(t, guarded(t, people(t, test.shop, Config{}, withNotified), onLoopback()), "/users/17")
		text := strings.ReplaceAll(read(page), "&#34;", `"`)
		for _, want := range test.want {
			if !strings.Contains(text, want) || res.StatusCode != http.StatusOK {
				t.Errorf("%s: %d without %q: %s", name, res.StatusCode, want, text)
			}
		}
		for _, not := range test.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: there is %q: %s", name, not, text)
			}
		}
	}
	_, page := get(t, guarded(t, people(t, newShop(), Config{}, func(u *Users) {
		u.Notified = func(context.Context, int32) (*Notified, error) { return nil, errAway }
	}), onLoopback()), "/users/17")
	if text := read(page); !strings.Contains(text, "the notifications cannot be read now: "+errAway.Error()) || !strings.Contains(text, "Nearest products") {
		t.Errorf("without the ledger: %s", text)
	}
}

// What takes long is computed once for a version of the profile, however many look.
func TestExplanationsAreKeptForAVersion(t *testing.T) {
	s := newShop()
	h := guarded(t, people(t, s, Config{}), onLoopback())
	first, _ := get(t, h, "/users/17")
	for range 20 {
		again, body := get(t, h, "/users/17", func(r *http.Request) { r.Header.Set("If-None-Match", first.Header.Get("Etag")) })
		if again.StatusCode != http.StatusNotModified || body != "" {
			t.Fatalf("an unchanged page is answered %d with %d bytes", again.StatusCode, len(body))
		}
	}
	if n := s.explained.Load(); n != 1 {
		t.Errorf("the profile was explained %d times", n)
	}
	s.add("e", noon.Add(time.Minute), profile.ProductView, 5, "")
	s.fold()
	if res, page := get(t, h, "/users/17", func(r *http.Request) { r.Header.Set("If-None-Match", first.Header.Get("Etag")) }); res.StatusCode != http.StatusOK || !strings.Contains(read(page), "chef knife") {
		t.Errorf("after a write: %d", res.StatusCode)
	}
	if n := s.explained.Load(); n != 2 {
		t.Errorf("after a write the profile was explained %d times", n)
	}
}

// The field of every page leads to a user by number; what is no user leads to the runbook.
func TestASearchForAUser(t *testing.T) {
	with, without := people(t, newShop(), Config{Path: "/k"}), shownAs(t, Config{}, Sources{Look: lookAt(quiet(90))}, nil)
	alone := people(t, newShop(), Config{Path: "/ui"})
	alone.sources.Look = nil
	for _, test := range []struct {
		d          *Dashboard
		path, want string
	}{
		{with, "/k/search?q=+17+", "/k/users/17"},
		{with, "/k/users?q=17", "/k/users/17"},
		{with, "/k/search?q=disk", "/k/runbook?q=disk"},
		{with, "/k/search?q=0", "/k/runbook?q=0"},
		{with, "/k/search?q=2147483648", "/k/runbook?q=2147483648"},
		{without, "/search?q=17", "/runbook?q=17"},
		{alone, "/ui/search?q=anna", "/ui/users?q=anna"},
		{alone, "/ui/", "/ui/users"},
	} {
		res, _ := get(t, guarded(t, test.d, onLoopback()), test.path)
		if got := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || got != test.want {
			t.Errorf("%s leads to %d %q, want %q", test.path, res.StatusCode, got, test.want)
		}
	}
	for path, want := range map[string]int{
		"/k/users/17": 200, "/k/users/0": 404, "/k/users/x": 404, "/k/users/17/": 404, "/k/users/2147483648": 404, "/k/users": 200, "/k/users?q=anna": 200, "/k/users/": 200,
	} {
		if res, _ := get(t, guarded(t, with, onLoopback()), path); res.StatusCode != want {
			t.Errorf("%s is answered %d, want %d", path, res.StatusCode, want)
		}
	}
	if res, _ := get(t, guarded(t, without, onLoopback()), "/users/17"); res.StatusCode != http.StatusNotFound {
		t.Errorf("without users their page is answered %d", res.StatusCode)
	}
}

// A question that makes no sense is answered in its place.
func TestQuestionsThatCannotBeAnswered(t *testing.T) {
	h := guarded(t, people(t, newShop(), Config{}), onLoopback())
	for query, want := range map[string]string{
		"half-life=soon":      `the half-life "soon" is no length of time`,
		"half-life=0s":        "is no length of time above 0",
		"without=nothing-has": "0 events of the user have a message_id that begins so",
		"without=d":           "without d (1 event): cosine ",
		"without=search":      "without search (2 events): cosine ",
	} {
		res, page := get(t, h, "/users/17?"+query)
		if text := strings.ReplaceAll(read(page), "&#34;", `"`); res.StatusCode != http.StatusOK || !strings.Contains(text, want) || !strings.Contains(text, "Nearest products") {
			t.Errorf("%s: %d without %q: %s", query, res.StatusCode, want, text)
		}
	}
}
