package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// viewer is a browser that sends forms.
type viewer struct {
	t      *testing.T
	url    string
	cookie string
}

var planInPage = regexp.MustCompile(`name="plan" value="([^"]+)"`)

// unlocks returns a viewer who was asked and may change something.
func unlocks(t *testing.T, url string) *viewer {
	t.Helper()
	v := &viewer{t: t, url: url}
	res := v.post("/unlock", nil)
	defer res.Body.Close()
	v.cookie, _, _ = strings.Cut(res.Header.Get("Set-Cookie"), ";")
	if v.cookie == "" {
		t.Fatalf("no cookie: %d", res.StatusCode)
	}
	return v
}

// send sends a request as the page does, and follows no redirect.
func (v *viewer) send(method, path string, form url.Values) *http.Response {
	v.t.Helper()
	r, err := http.NewRequest(method, v.url+path, strings.NewReader(form.Encode()))
	must.OK(v.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Cookie", v.cookie)
	res, err := http.DefaultTransport.RoundTrip(r)
	must.OK(v.t, err)
	return res
}

func (v *viewer) post(path string, form url.Values) *http.Response {
	v.t.Helper()
	return v.send(http.MethodPost, path, form)
}

// act sends a form and waits for the end of what it began. It returns what a person reads of that,
// and the plan.
func (v *viewer) act(path string, form url.Values) (text, plan string) {
	v.t.Helper()
	led := v.post(path, form)
	_ = led.Body.Close()
	if led.StatusCode != http.StatusSeeOther {
		v.t.Fatalf("%s is answered with %d", path, led.StatusCode)
	}
	eventually(v.t, path+" has ended", func() error {
		res := v.send(http.MethodGet, led.Header.Get("Location"), nil)
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		text = strings.Join(strings.Fields(html.UnescapeString(pageMarkup.ReplaceAllString(string(page), " "))), " ")
		if strings.Contains(text, "under way since") || strings.Contains(text, "before it") {
			return fmt.Errorf("%s", text)
		}
		if found := planInPage.FindSubmatch(page); found != nil {
			plan = string(found[1])
		}
		return nil
	})
	return text, plan
}

// plans asks for what an action would do, which says these texts, and returns its plan.
func (v *viewer) plans(action string, form url.Values, want ...string) string {
	v.t.Helper()
	text, plan := v.act("/plan/"+action, form)
	v.says(text, want)
	return plan
}

// does does what was planned, after which the page says these texts.
func (v *viewer) does(plan string, want ...string) {
	v.t.Helper()
	text, again := v.act("/do", url.Values{"plan": {plan}})
	v.says(text, want)
	if plan == "" || again != "" {
		v.t.Errorf("the plan is %q, and after it %q", plan, again)
	}
}

func (v *viewer) says(text string, want []string) {
	v.t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			v.t.Errorf("the page does not say %q: %s", w, text)
		}
	}
}

// The page of a user rebuilds and erases as the commands do, after what their dry runs print.
func TestDashboardChangesAUser(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newShop(t, outbox.SQLite)
	ingest := s.ingest(t)
	ingest.accepted(sorted(t, sampleOf(t, 200))...)
	s.allSent(t)
	worker := s.work(t, quick)
	worker.ready()
	s.folded(t, int64(s.expect(t, sorted(t, s.bodies(t))).Folded))

	user := url.Values{"user": {"1"}, "back": {"/users/1"}}
	v := unlocks(t, pagesOf(t, append(s.flags(), "--actions")...))
	if plan := v.plans("users.rebuild", user, "user 1: as the history makes it"); plan != "" {
		t.Error("a profile that is as its history makes it can be rebuilt")
	}
	v.plans("users.rebuild", url.Values{"user": {"x"}}, "✗")
	v.plans("users.rebuild", url.Values{"user": {"999999"}}, "no event of user 999999")

	other := append(s.flags(), "--decay-lambda=16")
	v = unlocks(t, pagesOf(t, append(other, "--actions")...))
	v.does(v.plans("users.rebuild", user, "user 1: would be replaced", "lowest cosine"), "Done", "user 1: replaced")
	v.plans("users.rebuild", user, "user 1: as the history makes it")

	plan := v.plans("users.forget", user, "user 1 would be erased", "There is no way back")
	shows(t, v.url+"/users/1", "Nearest products")
	v.does(plan, "user 1 is erased; events of this user are dropped from now on")
	shows(t, v.url+"/users/1", "user 1 was erased at ")
	v.plans("users.rebuild", user, "an erased user is not rebuilt")
	res := v.send(http.MethodGet, "/audit", nil)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	must.OK(t, err)
	for _, want := range []string{"users.rebuild", "users.forget", "user 1", "unlock"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the audit log has no %q", want)
		}
	}
	if text := shows(t, pagesOf(t, s.flags()...)+"/users/2", "read only"); strings.Contains(text, "rebuild…") {
		t.Error("a page that only reads offers a rebuild")
	}
}
