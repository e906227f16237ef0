package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"keyfold/service/failed"
)

// Whatever stands in a letter is text on every page, also in its links and forms, which find it.
func TestHostileTextsOfFailuresAreInert(t *testing.T) {
	clean := failingWith(t, newPile(append(many(2), row(1))...), Config{Bodies: true, Actions: true})
	show := with(clean.plans.unlockCookie())
	var ours []string
	for _, path := range []string{"/failures", "/failures?reason=x", "/failures/m-1?where=broker"} {
		_, page := get(t, clean, path, show)
		ours = append(ours, elements(page)...)
	}
	ours = append(ours, "pre", "tabindex")
	for _, text := range hostile {
		var all []failed.Letter
		for i := range 10 { // each field alone, then all
			l := letter(i, "reason")
			for field, to := range []*string{&l.ID, &l.User, &l.Type, &l.Reason, &l.Errors[1], &l.Host, &l.Fault} {
				if field == i || i > 6 {
					*to = text
				}
			}
			if i > 6 {
				l.Headers = map[string]string{text: text}
				l.Body = []byte(text)
				l.Errors = slices.Repeat([]string{text}, 40)
				l.NumericUser = false
			}
			all = append(all, l)
		}
		for len(all) < failuresShown {
			all = append(all, all[9])
		}
		f := failingWith(t, newPile(all...), Config{Bodies: true, Actions: true})
		show := with(f.plans.unlockCookie())
		check := func(path string, res *http.Response, page string) {
			t.Helper()
			if res.StatusCode != http.StatusOK || len(page) > 60<<10 {
				t.Errorf("%.30q: %.80s is answered %d with %d bytes", text, path, res.StatusCode, len(page))
			}
			if !utf8.ValidString(page) || strings.ContainsFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) && r != '\u00a0' }) {
				t.Errorf("%.30q: %.80s has a character that commands", text, path)
			}
			for _, one := range elements(page) {
				if !slices.Contains(ours, one) {
					t.Errorf("%.30q: %.80s has the element or attribute %q", text, path, one)
				}
			}
		}
		q := url.QueryEscape(short(text))
		for _, path := range []string{"/failures", "/failures?reason=" + q + "&type=" + q + "&user=" + q + "&error=" + q + "&older=" + q + "&id=" + q + "&where=" + q} {
			res, page := get(t, f, path, show)
			check(path, res, page)
		}
		b := all[9].Brief()
		path := letterPath(failed.Broker, b.Key())
		res, page := get(t, f, path, show)
		check(path, res, page)
		if !strings.Contains(page, "more have this id") {
			t.Errorf("%.30q: the letter is not found at %s: %s", text, path, read(page))
		}
		res = post(f, path, nil, show)
		check(path, res, body(t, res))
		plan, _ := f.act(t, "remove", url.Values{"user": {b.User}, "reason": {b.Reason}, "type": {b.Type}}, nil)
		if !strings.Contains(plan, "remove 43") || !strings.Contains(plan, "Remove 43 failures?") {
			t.Errorf("%.30q: the filter of its own texts means: %s", text, read(plan))
		}
	}
}

// A letter's page has its fields, attempts and headers; its body only where the program was told to,
// after a form, which the log notes.
//
// Promise(dashboard/bodies): Bodies of dead letters are shown only with --bodies, after a form, and each showing is an
// audit line.
func TestThePageOfALetter(t *testing.T) {
	p := newPile(append(many(3), row(1))...)
	f := failingWith(t, p, Config{})
	_, page := get(t, f, "/failures/m-1?where=broker")
	l := p.letters[failed.Broker][1]
	for _, field := range append(l.Fields(), l.HeaderFields()...) {
		if !strings.Contains(read(page), field.Name+" "+field.Value) {
			t.Errorf("no %v in %s", field, read(page))
		}
	}
	passes := p.passes
	for range 3 {
		get(t, f, "/failures/m-1?where=broker")
	}
	if p.passes != passes {
		t.Error("a refresh makes a pass")
	}
	if res := post(f, "/failures/m-1?where=broker", nil); res.StatusCode != http.StatusForbidden || strings.Contains(page, "red mug") {
		t.Errorf("bodies without being told: %d", res.StatusCode)
	}
	for path, want := range map[string]string{"/failures/row-1?where=sql": "row-1", "/failures/gone?where=broker": "no failure of this id is there"} {
		if _, page := get(t, f, path); !strings.Contains(read(page), want) {
			t.Errorf("%s: %s", path, read(page))
		}
	}
	if res, _ := get(t, f, "/failures/m-1?where=nowhere"); res.StatusCode != http.StatusNotFound {
		t.Errorf("no such place: %d", res.StatusCode)
	}
	shown := failingWith(t, p, Config{Bodies: true, Actions: true})
	if _, page := get(t, shown, "/failures/m-1?where=broker"); strings.Contains(page, "red mug") || !strings.Contains(page, "show the body") {
		t.Errorf("before the form: %s", page)
	}
	res := post(shown, "/failures/m-1?where=broker", nil)
	if page := body(t, res); res.StatusCode != http.StatusOK || !strings.Contains(read(page), `"secret": "red mug"`) || !strings.Contains(page, "original message") {
		t.Errorf("after the form: %s", page)
	}
	if entries, _ := shown.journal.last(5); len(entries) != 1 || entries[0].Action != "failures.show" || !strings.Contains(entries[0].Of, "m-1") || strings.Contains(fmt.Sprint(entries), "red mug") {
		t.Errorf("the audit log has %+v", entries)
	}
}
