package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/service/status"
)

// paths are all pages.
var paths = []string{"/", "/workers", "/alerts", "/runbook", "/runbook?q=disk"}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// read returns what a person reads of a page.
func read(page string) string {
	return spaces.ReplaceAllString(html.UnescapeString(tags.ReplaceAllString(page, " ")), " ")
}

// The overview has what the command prints, word by word: both show one report.
//
// Promise(dashboard/same-report): The overview has every word and figure that `keyfold status` prints of the same look.
func TestTheOverviewHasWhatTheCommandPrints(t *testing.T) {
	for name, r := range map[string]*status.Report{"quiet": quiet(90), "faulty": faulty(90)} {
		d := shownAs(t, Config{}, Sources{}, nil)
		d.watch.take(r.At, r, nil)
		_, page := get(t, guarded(t, d, onLoopback()), "/")
		seen := read(page) + strings.ToUpper(page)
		var printed strings.Builder
		r.Print(&cli.Text{W: &printed})
		words := 0
		for line := range strings.Lines(printed.String()) {
			if strings.Contains(line, "docs/RUNBOOK.md#") || strings.Contains(line, r.At.Format("2006-01-02T")) { // a section in place, and the foot
				continue
			}
			for word := range strings.FieldsSeq(strings.ReplaceAll(line, "`", "")) {
				words++
				if !strings.Contains(seen, strings.TrimSuffix(word, ":")) {
					t.Errorf("%s: the page lacks %q of the line %q", name, word, line)
				}
			}
		}
		if words < 60 {
			t.Errorf("%s: only %d words were compared", name, words)
		}
		for _, p := range r.Problems {
			if anchor := d.manual.find(p.Runbook); anchor == nil || !strings.Contains(page, string(anchor.Body)) {
				t.Errorf("%s: the page lacks the section %q", name, p.Runbook)
			}
		}
	}
}

// hostile are texts that any program that sends an event, or a server, may have written.
var hostile = []string{
	`<script>document.title="owned"</script>`, `"><img src=x onerror=alert(1)>`, `<svg/onload=alert(1)>`, `</title><script>alert(1)</script>`,
	`' autofocus onfocus=alert(1) x='`, `javascript:alert(1)`, `{{.Base}}{{printf "%s" .}}`, "`<b>code</b>`", "a\u202egnp.exe", "\u2066isolate\u2069", "\x1b[2J\a",
	"bad \xff\xfe utf-8", "nul\x00byte", "\ufeff", strings.Repeat("w", 64<<10), strings.Repeat("<script>", 8<<10), "&lt;script&gt;", "<!--", "]]>", `<a href="http://evil.example">x</a>`,
}

// fill puts a text into every string of a value.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem(), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Field(i).CanSet() && name != "Holds" && name != "Of" && name != "Figures" && name != "Runbook" {
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.String:
		v.SetString(text)
	}
}

// Whatever stands in a text of the report is text on every page.
//
// Promise(dashboard/inert): Markup, control and bidi characters, invalid UTF-8 and 64 KB in any text of
// the report are shown as text, cut, and executed by nothing.
func TestHostileTextsAreInert(t *testing.T) {
	_, clean := get(t, guarded(t, shownAs(t, Config{}, Sources{}, faulty(90)), onLoopback()), "/")
	ours := elements(clean)
	for _, text := range hostile {
		r := faulty(90)
		fill(reflect.ValueOf(r), text)
		alerts := func(context.Context) ([]Alert, error) {
			return []Alert{{Name: text, State: text, Severity: text, Summary: text}}, nil
		}
		d := shownAs(t, Config{Version: text}, Sources{Alerts: alerts}, nil)
		d.watch.take(r.At, r, errors.New(text))
		d.watch.take(r.At, r, nil)
		s := guarded(t, d, onLoopback())
		for _, path := range append(paths, "/runbook?q="+strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(short(text), "%", "%25"), " ", "+"), "&", "%26")) {
			res, page := get(t, s, strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' || strings.ContainsRune(`"<>`+"`{}", r) {
					return 'x'
				}
				return r
			}, path))
			if res.StatusCode != http.StatusOK || len(page) > 60<<10 {
				t.Errorf("%.30q: %s is answered %d with %d bytes", text, path, res.StatusCode, len(page))
			}
			if !utf8.ValidString(page) || strings.ContainsFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) && r != '\u00a0' }) {
				t.Errorf("%.30q: %s has a character that commands", text, path)
			}
			if path == "/" {
				for _, one := range elements(page) {
					if !slices.Contains(ours, one) {
						t.Errorf("%.30q: %s has the element or attribute %q", text, path, one)
					}
				}
			}
		}
	}
}

func short(text string) string { return text[:min(len(text), 100)] }

var attribute = regexp.MustCompile(`\s([a-z-]+)=`)

// elements lists the elements and attributes of a page.
func elements(page string) (all []string) {
	for _, tag := range tags.FindAllString(page, -1) {
		name, _, _ := strings.Cut(strings.Trim(tag, "</>"), " ")
		all = append(all, strings.TrimSuffix(name, "/"))
		for _, found := range attribute.FindAllStringSubmatch(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`), -1) {
			all = append(all, found[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// What is away is said in its place, with the rest of the page, and the overview is answered.
//
// Promise(dashboard/never-5xx): A source that is away, a look that fails, and the time before the first look are said on
// the overview, which is never answered with a 5xx status.
func TestWhatIsAwayIsSaidInItsPlace(t *testing.T) {
	d := shownAs(t, Config{}, Sources{Alerts: func(context.Context) ([]Alert, error) { return nil, errors.New("Prometheus is away") }}, nil)
	d.watch.take(noon, nil, errors.New("no server can be asked"))
	s := guarded(t, d, onLoopback())
	for path, want := range map[string][]string{
		"/":        {"no server can be asked", "profiles: events", "Events a second"},
		"/workers": {"no server can be asked", "10.0.0.12:9090"},
		"/alerts":  {"no server can be asked", "Prometheus is away"},
	} {
		res, page := get(t, s, path)
		for _, w := range want {
			if res.StatusCode != http.StatusOK || !strings.Contains(page, w) {
				t.Errorf("%s: %d, no %q", path, res.StatusCode, w)
			}
		}
	}
	none, err := New(Config{}, Sources{}, d.watch.log)
	must.OK(t, err)
	none.watch.once.Do(func() { close(none.watch.first) }) // it waits no more
	for _, path := range paths {
		res, page := get(t, guarded(t, none, onLoopback()), path)
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(path, "/runbook") && !strings.Contains(page, errFirstLook.Error()) {
			t.Errorf("before the first look %s: %d", path, res.StatusCode)
		}
	}
}

// A page stays small with as much as an installation may have, and names no other host.
//
// Promise(dashboard/budget): A page of 80 processes and 50 problems is below 60 KB, style and script below 25 KB, and
// no page or asset names another host.
func TestBudgets(t *testing.T) {
	r := faulty(90)
	for i := range 100 {
		p := worker(strings.Repeat("x", 20)+string(rune('a'+i%26))+":9090", 90, nil)
		p.Remarks = []string{strings.Repeat("a long remark ", 10)}
		r.Processes = append(r.Processes, p)
	}
	for i := range 50 {
		r.Problems = append(r.Problems, status.Problem{About: strings.Repeat("y", i+1), Text: strings.Repeat("a long text ", 20), Runbook: "keyfolddeadletterswaiting"})
	}
	s := guarded(t, shownAs(t, Config{}, Sources{}, r), onLoopback())
	for _, path := range paths {
		if _, page := get(t, s, path); len(page) > 60<<10 {
			t.Errorf("%s has %d bytes", path, len(page))
		}
	}
	_, style := get(t, s, "/style.css")
	_, script := get(t, s, "/live.js")
	if len(style) > 12<<10 || len(style)+len(script) > 25<<10 || strings.Count(script, "\n") > 250 {
		t.Errorf("the style has %d bytes, the script %d in %d lines", len(style), len(script), strings.Count(script, "\n"))
	}
	elsewhere := regexp.MustCompile(`(?i)\b[a-z]+://|url\(|@import|["'(]//`)
	for _, name := range []string{"asset/style.css", "asset/live.js"} {
		text, err := files.ReadFile(name)
		must.OK(t, err)
		if found := elsewhere.Find(text); found != nil {
			t.Errorf("%s has %q", name, found)
		}
	}
	pages, err := files.ReadDir("page")
	must.OK(t, err)
	for _, p := range pages {
		text, err := files.ReadFile("page/" + p.Name())
		must.OK(t, err)
		if found := regexp.MustCompile(`(?i)\b[a-z]+://|(src|href)="[^{#d]|<style|<script>| on[a-z]+=| style=`).Find(text); found != nil {
			t.Errorf("page/%s has %q", p.Name(), found)
		}
	}
}

// A page that has not changed is not sent again; the time of the look is.
func TestWhatHasNotChangedIsNotSent(t *testing.T) {
	d := shownAs(t, Config{}, Sources{}, nil)
	s := guarded(t, d, onLoopback())
	same := func(tag string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("If-None-Match", tag) }
	}
	for _, path := range append(paths, "/style.css", "/live.js") {
		first, _ := get(t, s, path)
		tag := first.Header.Get("Etag")
		again, body := get(t, s, path, same(tag))
		if again.StatusCode != http.StatusNotModified || body != "" || again.Header.Get("Etag") != tag {
			t.Errorf("%s again: %d with %d bytes", path, again.StatusCode, len(body))
		}
	}
	first, _ := get(t, s, "/")
	later := quiet(89)
	later.At = later.At.Add(lookEvery)
	d.watch.take(later.At, later, nil)
	if again, _ := get(t, s, "/", same(first.Header.Get("Etag"))); again.StatusCode != http.StatusNotModified || again.Header.Get("Keyfold-Looked") == first.Header.Get("Keyfold-Looked") {
		t.Errorf("after a look that found the same: %d, looked %s", again.StatusCode, again.Header.Get("Keyfold-Looked"))
	}
	later = quiet(89)
	later.Queues[0].Ready++
	d.watch.take(later.At, later, nil)
	if again, _ := get(t, s, "/", same(first.Header.Get("Etag"))); again.StatusCode != http.StatusOK {
		t.Errorf("after a look that found more: %d", again.StatusCode)
	}
}

// The runbook is whole: every section of the page is there under the anchor that problems name.
func TestTheRunbookIsWhole(t *testing.T) {
	m := readManual("/base")
	if len(m.sections) < 60 || m.find("keyfolddown") == nil || m.find("connection-refused") == nil || m.find("outage-of-a-server") == nil || m.find("certificate-of-an-unknown-authority") == nil {
		t.Fatalf("%d sections: %+v", len(m.sections), m.by)
	}
	for _, s := range m.sections {
		body := string(s.Body)
		for _, mark := range []string{"**", "](", "|---", "\x00", "<!--"} {
			if strings.Contains(body, mark) {
				t.Errorf("%s has %q left: %s", s.Title, mark, body)
			}
		}
		for _, found := range regexp.MustCompile(`href="/base/runbook#([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if m.find(found[1]) == nil {
				t.Errorf("%s leads to the section %s, which is not there", s.Title, found[1])
			}
		}
	}
	if got := m.search("disk full"); len(got) == 0 || len(m.search("no-such-word")) != 0 {
		t.Errorf("found %d sections", len(got))
	}
}

// The values that pages show can be read as JSON: none holds what cannot be shown.
func TestSnapshotsAreValues(t *testing.T) {
	if _, err := json.Marshal(shownAs(t, Config{}, Sources{}, faulty(90)).watch.last.Load().Report); err != nil {
		t.Error(err)
	}
}
