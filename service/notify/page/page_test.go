package page

import (
	stdcontext "context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/link"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
	"keyfold/source/httpapi"
)

// start is Friday, 2026-05-29 00:26:40 in Berlin.
const start = engine.Millis(1_780_007_200_000)

// shaky is a memory ledger that can be away.
type shaky struct {
	*memory.Ledger
	away   bool
	before func() // an update
}

func (s *shaky) Preferences(ctx stdcontext.Context, user string) (ledger.Preferences, error) {
	if s.away {
		return ledger.Preferences{}, engine.ErrAway
	}
	return s.Ledger.Preferences(ctx, user)
}

func (s *shaky) UpdatePreferences(ctx stdcontext.Context, user string, ifVersion int64, own notify.Preferences) (int64, error) {
	if s.before != nil {
		before := s.before
		s.before = nil
		before()
	}
	return s.Ledger.UpdatePreferences(ctx, user, ifVersion, own)
}

// application serves the pages alone.
type application struct{ *Pages }

func (a application) About() httpapi.About                     { return httpapi.About{Open: a.Paths()} }
func (application) Ready(stdcontext.Context) error             { return nil }
func (a application) Serve(r *httpapi.Request) *httpapi.Answer { return a.Pages.Serve(r) }

type fixed struct{ set *notify.Set }

func (f *fixed) Current() *notify.Set { return f.set }

type world struct {
	store *shaky
	sets  *fixed
	links *link.Links
	http  http.Handler
}

func newWorld(t testing.TB, topics ...notify.Topic) *world {
	t.Helper()
	zone, err := quiet.LoadZone("Europe/Berlin")
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), "keys")
	must.OK(t, os.WriteFile(path, []byte("a key of a test, which has 32 bytes and more\n"), 0o600))
	set := &notify.Set{Local: notify.Local{Zone: zone, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}}}
	set.Policy.Topics = topics
	w := &world{store: &shaky{Ledger: memory.New()}, sets: &fixed{set}}
	w.links, err = (&link.Settings{KeyFile: path, URL: "https://shop.example/n", Days: 60}).Links(w.sets)
	must.OK(t, err)
	pages, err := New(w.store, w.sets, w.links)
	must.OK(t, err)
	pages.Now = func() engine.Millis { return start }
	config := httpapi.DefaultConfig()
	config.Tokens = []string{"token-of-a-test-01"}
	server, err := httpapi.NewServer(config, httpapi.NewHandler(application{pages}, slog.New(slog.DiscardHandler)))
	must.OK(t, err)
	w.http = server
	return w
}

var shop = []notify.Topic{
	{Name: "orders", Title: "Your orders", Locked: true}, {Name: "offers", Title: "Offers & <deals>"}, {Name: "news"},
}

func (w *world) token(purpose link.Purpose) string {
	g := link.Grant{Purpose: purpose, User: "anna", Expires: start + 1000}
	if purpose == link.Unsubscribe {
		g.Topic, g.Channel = "offers", notify.Email
	}
	return w.links.Token(g)
}

func (w *world) ask(method, target, kind, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	w.http.ServeHTTP(answer, r)
	return answer
}

func (w *world) get(purpose link.Purpose) *httptest.ResponseRecorder {
	return w.ask("GET", "/"+string(purpose)+"?t="+w.token(purpose), "", "")
}

const formType = "application/x-www-form-urlencoded"

// post sends a form of the page, as a browser does.
func (w *world) post(form url.Values) *httptest.ResponseRecorder {
	return w.ask("POST", "/preferences", formType, form.Encode(), "Origin", "null", "Sec-Fetch-Site", "same-origin")
}

func (w *world) own(t testing.TB) string {
	t.Helper()
	stored, err := w.store.Ledger.Preferences(t.Context(), "anna")
	must.OK(t, err)
	text, err := stored.Own.MarshalJSON()
	must.OK(t, err)
	return string(text)
}

func (w *world) set(t testing.TB, text string) {
	t.Helper()
	var own notify.Preferences
	must.OK(t, own.UnmarshalJSON([]byte(text)))
	must.OK(t, w.store.SetPreferences(t.Context(), "anna", own))
}

// nodes calls do with each element of a page.
func nodes(t testing.TB, text string, do func(*html.Node)) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	must.OK(t, err)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			do(n)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

// formOf returns what a browser sends of a page's first form.
func formOf(t testing.TB, text string) url.Values {
	t.Helper()
	v := url.Values{}
	nodes(t, text, func(n *html.Node) {
		name := attribute(n, "name")
		switch {
		case n.Data == "input" && attribute(n, "type") == "checkbox":
			if has(n, "checked") {
				v.Add(name, attribute(n, "value"))
			}
		case n.Data == "input":
			v.Add(name, attribute(n, "value"))
		case n.Data == "select":
			chosen := ""
			first := true
			for o := range n.Descendants() {
				if o.Data == "option" && (first || has(o, "selected")) {
					chosen, first = attribute(o, "value"), false
				}
			}
			v.Add(name, chosen)
		}
	})
	return v
}

func textOf(n *html.Node) string {
	var all strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			all.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(all.String()), " ")
}

// checkPage holds a page against what all users can use: a language, a title, one h1, a label
// for each field, a legend for each group, unique ids, no script and nothing from elsewhere.
func checkPage(t testing.TB, name string, w *httptest.ResponseRecorder) {
	t.Helper()
	text := w.Body.String()
	ids, labels, titles := map[string]int{}, map[string]string{}, map[string]int{}
	var fields []*html.Node
	var described []string
	nodes(t, text, func(n *html.Node) {
		titles[n.Data]++
		if id := attribute(n, "id"); id != "" {
			ids[id]++
		}
		if id := attribute(n, "aria-describedby"); id != "" {
			described = append(described, id)
		}
		if h := attribute(n, "href"); strings.HasPrefix(h, "#") {
			described = append(described, h[1:])
		}
		switch n.Data {
		case "html":
			if attribute(n, "lang") != "en" {
				t.Errorf("%s: no language", name)
			}
		case "script", "img", "link", "iframe", "object":
			t.Errorf("%s: it has a %s", name, n.Data)
		case "label":
			labels[attribute(n, "for")] = textOf(n)
		case "title", "h1", "legend", "button":
			if textOf(n) == "" {
				t.Errorf("%s: an empty %s", name, n.Data)
			}
		case "input", "select":
			if attribute(n, "type") != "hidden" {
				fields = append(fields, n)
			}
		case "fieldset":
			if first := n.FirstChild; first == nil || !strings.Contains(textOf(n), " ") {
				t.Errorf("%s: an empty fieldset", name)
			}
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "tabindex" {
				t.Errorf("%s: a %s with %s", name, n.Data, a.Key)
			}
		}
	})
	if titles["h1"] != 1 || titles["title"] != 1 || titles["main"] != 1 || titles["fieldset"] != titles["legend"] {
		t.Errorf("%s: %v", name, titles)
	}
	for _, n := range fields {
		if labels[attribute(n, "id")] == "" {
			t.Errorf("%s: the field %s has no label", name, attribute(n, "name"))
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%s: %d elements have the id %s", name, n, id)
		}
	}
	for _, id := range described {
		if ids[id] == 0 {
			t.Errorf("%s: the id %s is named and not there", name, id)
		}
	}
	for header, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": policy,
	} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: %s is %q, want %q", name, header, got, want)
		}
	}
	style, _, _ := strings.Cut(text[strings.Index(text, "<style>")+len("<style>"):], "</style>")
	if style != styleText {
		t.Errorf("%s: the style is not the one whose hash is allowed", name)
	}
}

// Each page can be used by all, whatever it has to say.
//
// Promise(api/pages-for-all): The pages of users need no script: each field has a label, and nothing is loaded from
// elsewhere.
func TestPages(t *testing.T) {
	w := newWorld(t, shop...)
	w.set(t, `{"zone":"America/New_York","quiet":[{"from":"22:00","to":"07:00","days":["mon"]},{"from":"12:00","to":"13:00"}],"muted":["PROMO"],
		"channels":["push","email"],"digests":["07:00","19:30"],"topics":{"news":{"channels":{"sms":"digest"},"muted_until":"2026-06-02T10:00:00Z"}},
		"snoozed_until":"2026-06-01T10:00:00Z"}`)
	page := w.get(link.Preferences)
	checkPage(t, "preferences", page)
	for _, want := range []string{"Offers &amp; &lt;deals&gt;", "Your orders", "Always sent", "Promotions", `value="2026-06-01T06:00"`, `value="19:30"`, "Muted until Tue 2 Jun 2026, 06:00", "The usual one (Europe/Berlin)", "09:00 and 18:00"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	form := formOf(t, page.Body.String())
	form.Set("digest", "25:00")
	form.Set("quiet.0.from", "")
	form.Set("mute", "until")
	wrong := w.post(form)
	if checkPage(t, "faults", wrong); wrong.Code != 422 {
		t.Errorf("faults: %d", wrong.Code)
	}
	for _, channel := range notify.Channels {
		form.Del(channelField(channel))
	}
	wrong = w.post(form)
	if checkPage(t, "no channel", wrong); wrong.Code != 422 || !strings.Contains(wrong.Body.String(), "at least one way") {
		t.Errorf("no channel: %d", wrong.Code)
	}
	checkPage(t, "unsubscribe", w.get(link.Unsubscribe))
	checkPage(t, "unsubscribed", w.ask("POST", "/unsubscribe?t="+w.token(link.Unsubscribe), formType, "List-Unsubscribe=One-Click"))
	plain := newWorld(t)
	page = plain.get(link.Preferences)
	checkPage(t, "without topics", page)
	if !strings.Contains(page.Body.String(), "Promotions") || strings.Contains(page.Body.String(), "What you get, and where") {
		t.Error("without topics the types are to choose from")
	}
	head := w.ask("HEAD", "/preferences?t="+w.token(link.Preferences), "", "")
	if head.Code != 200 {
		t.Errorf("HEAD: %d", head.Code)
	}
	if put := w.ask("PUT", "/preferences", "", ""); put.Code != 405 || put.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PUT: %d", put.Code)
	}
}

// A form that is sent as it came changes nothing, whatever the preferences are.
func TestAFormThatIsNotChanged(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"zone":"Asia/Calcutta","quiet":[{"from":"22:00","to":"07:00","days":["mon","sun"]},{"from":"00:00","to":"24:00","days":["sat"]},{"from":"20:00","to":"24:00"},{"from":"01:00","to":"00:00"}],"caps":[1,2,3]}`,
		`{"muted":["PROMO","DIGEST"],"channels":["in_app","push"],"digests":["00:00","23:59"],"attributes":{"plan":"pro"},"paused":true}`,
		`{"topics":{"offers":{"channels":{"push":"off","email":"digest","sms":"on"},"muted_until":"2026-06-01T10:00:00.123Z"},"gone":{"channels":{"push":"off"}},"orders":{"channels":{"push":"off"}}}}`,
		`{"muted_until":"2026-06-01T10:00:30.123Z","snoozed_until":"2026-06-01T10:00:00Z"}`,
		`{"quiet":[{"from":"22:00","to":"07:00","days":["mon","tue","wed","thu","fri","sat","sun"]}]}`,
	} {
		for _, topics := range [][]notify.Topic{nil, shop} {
			w := newWorld(t, topics...)
			w.set(t, text)
			before := w.own(t)
			answer := w.post(formOf(t, w.get(link.Preferences).Body.String()))
			if answer.Code != 303 {
				t.Errorf("%s: %d: %s", text, answer.Code, answer.Body)
			}
			if got := w.own(t); got != before {
				t.Errorf("unchanged, and stored as\n%s\nwant\n%s", got, before)
			}
			if stored, _ := w.store.Ledger.Preferences(t.Context(), "anna"); stored.Version != 1 {
				t.Errorf("%s: version %d", text, stored.Version)
			}
		}
	}
}

// What a form says is stored, and the user is led back to a page that says so.
func TestSave(t *testing.T) {
	for _, c := range []struct {
		stored string
		set    map[string]string // "": the field is left out
		want   string
	}{
		{`{}`, map[string]string{"topic.offers.push": "off", "topic.offers.email": "digest", "topic.news.sms": "on"}, `{"topics":{"offers":{"channels":{"email":"digest","push":"off"}}}}`},
		{`{"topics":{"offers":{"channels":{"push":"off"}}},"attributes":{"plan":"pro"}}`, map[string]string{"topic.offers.push": "on"}, `{"attributes":{"plan":"pro"}}`},
		{`{"topics":{"offers":{"muted_until":"2026-06-01T10:00:00.000Z"}}}`, map[string]string{"held.offers": ""}, `{}`},
		{`{}`, map[string]string{"paused": "on", "zone": "Asia/Tokyo", "digest": "07:30"}, `{"zone":"Asia/Tokyo","digests":["07:30"],"paused":true}`},
		{`{"zone":"Asia/Tokyo","paused":true}`, map[string]string{"paused": "", "zone": ""}, `{}`},
		{`{}`, map[string]string{"mute": "8h", "snooze": "week"}, `{"muted_until":"2026-05-29T06:26:40.000Z","snoozed_until":"2026-06-04T22:26:40.000Z"}`},
		{`{}`, map[string]string{"mute": "morning"}, `{"muted_until":"2026-05-30T06:00:00.000Z"}`},
		{`{"zone":"UTC"}`, map[string]string{"mute": "morning"}, `{"zone":"UTC","muted_until":"2026-05-29T08:00:00.000Z"}`},
		{`{}`, map[string]string{"snooze": "until", "snooze_until": "2026-07-01T09:15"}, `{"snoozed_until":"2026-07-01T07:15:00.000Z"}`},
		{`{"snoozed_until":"2026-06-01T10:00:00.000Z"}`, map[string]string{"snooze": "none"}, `{}`},
		{`{}`, map[string]string{"quiet.0.from": "22:00", "quiet.0.to": "07:00", "quiet.0.day": "5"}, `{"quiet":[{"from":"22:00","to":"07:00","days":["fri"]}]}`},
		{`{"quiet":[{"from":"22:00","to":"07:00"}]}`, map[string]string{"quiet.0.from": "", "quiet.0.to": ""}, `{}`},
		{`{}`, map[string]string{"channel.sms": "", "channel.in_app": ""}, `{"channels":["push","email"]}`},
		{`{"channels":["push"]}`, map[string]string{"channel.sms": "on", "channel.in_app": "on", "channel.email": "on"}, `{}`},
		{`{"muted":["PROMO","ALERT"]}`, map[string]string{"type.PROMO": "on"}, `{"muted":["ALERT"]}`},
	} {
		w := newWorld(t, shop...)
		w.set(t, c.stored)
		form := formOf(t, w.get(link.Preferences).Body.String())
		for name, value := range c.set {
			if form.Set(name, value); value == "" {
				form.Del(name)
			}
		}
		answer := w.post(form)
		location := answer.Header().Get("Location")
		if answer.Code != 303 || !strings.HasPrefix(location, "preferences?") {
			t.Fatalf("%v: %d to %q: %s", c.set, answer.Code, location, answer.Body)
		}
		if got := w.own(t); got != c.want {
			t.Errorf("%v: stored are\n%s\nwant\n%s", c.set, got, c.want)
		}
		if page := w.ask("GET", "/"+location, "", ""); page.Code != 200 || !strings.Contains(page.Body.String(), "are saved") {
			t.Errorf("the page after it: %d", page.Code)
		}
	}
}

// Faults are named beside their fields, nothing is stored, and what was typed is still there.
func TestFaultyForms(t *testing.T) {
	for field, c := range map[string][2]string{
		"digest":            {"24:00", "Give a time such as 18:00"},
		"zone":              {"Mars/X", "Choose a time zone"},
		"topic.offers.push": {"maybe", "Choose on, off or digest"},
		"quiet.0.from":      {"22:00", "Give both times"},
		"mute_until":        {"soon", "Give the day and the time"},
	} {
		w := newWorld(t, shop...)
		form := formOf(t, w.get(link.Preferences).Body.String())
		form.Set("mute", "until")
		form.Set("mute_until", "2026-07-01T09:15")
		form.Set(field, c[0])
		form.Set("topic.news.push", "digest")
		answer := w.post(form)
		if answer.Code != 422 || !strings.Contains(answer.Body.String(), c[1]) {
			t.Errorf("%s: %d: %s", field, answer.Code, answer.Body)
		}
		checkPage(t, field, answer)
		if got := formOf(t, answer.Body.String()); got.Get("topic.news.push") != "digest" {
			t.Errorf("%s: what was typed is lost: %v", field, got)
		}
		if got := w.own(t); got != "{}" {
			t.Errorf("%s: stored are %s", field, got)
		}
	}
	w := newWorld(t, shop...)
	form := formOf(t, w.get(link.Preferences).Body.String())
	for until, want := range map[string]string{"2026-05-01T00:00": "still to come", "2126-05-01T00:00": "next ten years"} {
		form.Set("snooze", "until")
		form.Set("snooze_until", until)
		if answer := w.post(form); answer.Code != 422 || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: %d", until, answer.Code)
		}
	}
	form.Set("snooze", "none")
	form.Set("quiet.0.from", "00:00")
	form.Set("quiet.0.to", "00:00")
	if answer := w.post(form); answer.Code != 422 || !strings.Contains(answer.Body.String(), "whole week") {
		t.Errorf("always quiet: %d", answer.Code)
	}
}

// A form that was made from former preferences is not stored. It is shown again with what was
// typed over the newer ones, and says where both were changed; sent again, it is stored.
//
// Promise(api/page-conflict): A form that was made from former preferences is not stored: it comes again with what was typed
// over the newer ones.
func TestConflict(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newWorld(t, shop...)
		form := formOf(t, w.get(link.Preferences).Body.String())
		form.Set("topic.offers.push", "off")
		form.Set("topic.news.push", "digest")
		elsewhere := func() {
			w.set(t, `{"zone":"Asia/Tokyo","topics":{"offers":{"channels":{"push":"digest","sms":"off"}}}}`)
		}
		if late { // between the page's read and its write
			w.store.before = elsewhere
		} else {
			elsewhere()
		}
		newer := w.own(t)
		answer := w.post(form)
		checkPage(t, "conflict", answer)
		if !late && w.own(t) != newer || answer.Code != 409 {
			t.Fatalf("%d, stored are %s", answer.Code, w.own(t))
		}
		body := answer.Body.String()
		if !strings.Contains(body, "changed elsewhere") || !strings.Contains(body, "Offers &amp; &lt;deals&gt;, Push: digest") || strings.Contains(body, "Time zone: ") {
			t.Errorf("the page does not say what differs: %s", body)
		}
		again := formOf(t, body)
		for field, want := range map[string]string{"topic.offers.push": "off", "topic.offers.sms": "off", "topic.news.push": "digest", "zone": "Asia/Tokyo"} {
			if got := again.Get(field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		if answer := w.post(again); answer.Code != 303 {
			t.Errorf("again: %d", answer.Code)
		}
		if got, want := w.own(t), `{"zone":"Asia/Tokyo","topics":{"news":{"channels":{"push":"digest"}},"offers":{"channels":{"push":"off","sms":"off"}}}}`; got != want {
			t.Errorf("stored are %s, want %s", got, want)
		}
	}
}

// Only the page itself posts its form, and a good token alone opens a page.
//
// Promise(api/pages)
func TestStrangers(t *testing.T) {
	w := newWorld(t, shop...)
	good := w.token(link.Preferences)
	form := formOf(t, w.get(link.Preferences).Body.String())
	form.Set("paused", "on")
	for _, c := range []struct {
		header []string
		status int
	}{
		{[]string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Origin", "https://evil.example"}, 403},
		{[]string{"Origin", "https://shop.example"}, 303},
		{[]string{"Origin", "null"}, 303}, // an older browser, whose form has the token
		{nil, 303},                        // no browser
	} {
		if answer := w.ask("POST", "/preferences", formType, form.Encode(), c.header...); answer.Code != c.status {
			t.Errorf("%v: %d, want %d", c.header, answer.Code, c.status)
		}
		form.Set("version", fmt.Sprint(version(t, w)))
	}
	expired := w.links.Token(link.Grant{Purpose: link.Preferences, User: "anna", Expires: start})
	for token, status := range map[string]int{"": 403, good + "A": 403, good[:20]: 403, w.token(link.Unsubscribe): 403, expired: 410} {
		answer := w.ask("GET", "/preferences?t="+url.QueryEscape(token), "", "")
		if checkPage(t, "token", answer); answer.Code != status {
			t.Errorf("token %q: %d, want %d", token, answer.Code, status)
		}
		form.Set("t", token)
		if answer := w.post(form); answer.Code != status {
			t.Errorf("POST with the token %q: %d, want %d", token, answer.Code, status)
		}
	}
	if answer := w.ask("GET", "/unsubscribe?t="+good, "", ""); answer.Code != 403 {
		t.Errorf("a token of the preferences unsubscribes: %d", answer.Code)
	}
	for name, c := range map[string][3]string{
		"json": {"application/json", "{}", "415"}, "large": {formType, "t=" + strings.Repeat("x", maxForm), "413"}, "escape": {formType, "t=%zz", "400"},
	} {
		answer := w.ask("POST", "/preferences", c[0], c[1], "Sec-Fetch-Site", "same-origin")
		if checkPage(t, name, answer); fmt.Sprint(answer.Code) != c[2] {
			t.Errorf("%s: %d", name, answer.Code)
		}
	}
}

// One click unsubscribes, from any site and as often as it comes; a GET does not. There is a
// way back.
//
// Promise(api/one-click): One click unsubscribes (RFC 8058), from any site and as often as it comes; a GET never does.
func TestUnsubscribe(t *testing.T) {
	w := newWorld(t, shop...)
	w.set(t, `{"topics":{"news":{"channels":{"push":"off"}}},"attributes":{"plan":"pro"}}`)
	target := "/unsubscribe?t=" + w.token(link.Unsubscribe)
	before := w.own(t)
	for _, method := range []string{"GET", "HEAD"} {
		if answer := w.ask(method, target, "", ""); answer.Code != 200 || w.own(t) != before {
			t.Errorf("%s: %d, stored are %s", method, answer.Code, w.own(t))
		}
	}
	const off = `{"topics":{"news":{"channels":{"push":"off"}},"offers":{"channels":{"email":"off"}}},"attributes":{"plan":"pro"}}`
	multipart := "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n"
	for _, c := range [][2]string{{formType, "List-Unsubscribe=One-Click"}, {"multipart/form-data; boundary=b", multipart}} {
		answer := w.ask("POST", target, c[0], c[1], "Origin", "https://mail.example", "Sec-Fetch-Site", "cross-site")
		if answer.Code != 200 || answer.Header().Get("Location") != "" || len(answer.Header()["Set-Cookie"]) > 0 || !strings.Contains(answer.Body.String(), "no longer get") {
			t.Errorf("%s: %d: %s", c[0], answer.Code, answer.Body)
		}
		if got := w.own(t); got != off {
			t.Errorf("%s: stored are %s", c[0], got)
		}
	}
	if stored, _ := w.store.Ledger.Preferences(t.Context(), "anna"); stored.Version != 2 {
		t.Errorf("version %d", stored.Version)
	}
	page := w.ask("GET", target, "", "")
	if !strings.Contains(page.Body.String(), "Subscribe again") {
		t.Errorf("%s", page.Body)
	}
	if answer := w.ask("POST", target, formType, formOf(t, page.Body.String()).Encode()); answer.Code != 200 || !strings.Contains(w.own(t), `"email":"on"`) {
		t.Errorf("undone: %d, stored are %s", answer.Code, w.own(t))
	}
	if answer := w.ask("POST", target, formType, ""); answer.Code != 400 || !strings.Contains(w.own(t), `"email":"on"`) {
		t.Errorf("an empty POST: %d", answer.Code)
	}
	typed := "/unsubscribe?t=" + w.links.Token(link.Grant{Purpose: link.Unsubscribe, User: "anna", Type: notify.Promo, Expires: start + 1000})
	for _, c := range [][2]string{{"List-Unsubscribe=One-Click", `"muted":["PROMO"]`}, {"undo=1", ""}} {
		answer := w.ask("POST", typed, formType, c[0])
		if checkPage(t, "type", answer); answer.Code != 200 || strings.Contains(w.own(t), "muted") != (c[1] != "") {
			t.Errorf("%s: %d, stored are %s", c[0], answer.Code, w.own(t))
		}
	}
	w.sets.set.Policy.Topics[1].Locked = true
	defer func() { w.sets.set.Policy.Topics[1].Locked = false }()
	if answer := w.ask("POST", target, formType, "List-Unsubscribe=One-Click"); answer.Code != 409 || !strings.Contains(answer.Body.String(), "always sent") {
		t.Errorf("a locked topic: %d", answer.Code)
	}
}

// Where the preferences cannot be read, and of an erased user, the pages say so.
func TestAwayAndErased(t *testing.T) {
	w := newWorld(t, shop...)
	form := formOf(t, w.get(link.Preferences).Body.String())
	all := func(status int, words string) {
		t.Helper()
		for name, answer := range map[string]*httptest.ResponseRecorder{
			"preferences": w.get(link.Preferences), "unsubscribe": w.get(link.Unsubscribe), "save": w.post(form),
			"one click": w.ask("POST", "/unsubscribe?t="+w.token(link.Unsubscribe), formType, "List-Unsubscribe=One-Click"),
		} {
			if checkPage(t, name, answer); answer.Code != status || !strings.Contains(answer.Body.String(), words) || (answer.Header().Get("Retry-After") != "") != (status == 503) {
				t.Errorf("%s: %d: %s", name, answer.Code, answer.Body)
			}
		}
	}
	w.store.away = true
	all(503, "at the moment")
	w.store.away = false
	set := w.sets.set
	w.sets.set = nil
	all(503, "at the moment")
	w.sets.set = set
	must.OK(t, w.store.Forget(t.Context(), "anna", 1))
	all(410, "was erased")
}

// Each zone of the list is one.
func TestZones(t *testing.T) {
	names := strings.Fields(zoneText)
	if len(names) < 400 {
		t.Fatalf("%d zones", len(names))
	}
	for _, name := range names {
		if _, err := quiet.LoadZone(name); err != nil {
			t.Error(err)
		}
		if _, err := time.LoadLocation(name); err != nil {
			t.Error(err)
		}
	}
}

// Hostile forms are answered, none with a failure, and what is stored can be read.
func FuzzForms(f *testing.F) {
	w := newWorld(f, shop...)
	f.Add(formOf(f, w.get(link.Preferences).Body.String()).Encode())
	f.Add("t=x&was=%zz&version=-1&quiet.0.from=24:00&quiet.0.to=24:00&digest=&digest=99:99")
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/preferences", "/unsubscribe"} {
			prefix := "t=" + w.token(link.Preferences) + "&version=" + fmt.Sprint(version(t, w)) + "&"
			answer := w.ask("POST", path+"?t="+w.token(link.Unsubscribe), formType, prefix+body, "Sec-Fetch-Site", "same-origin")
			if answer.Code >= 500 {
				t.Fatalf("%d: %s", answer.Code, answer.Body)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
		}
		var own notify.Preferences
		must.OK(t, own.UnmarshalJSON([]byte(w.own(t))))
	})
}

func version(t testing.TB, w *world) int64 {
	stored, err := w.store.Ledger.Preferences(t.Context(), "anna")
	must.OK(t, err)
	return stored.Version
}
