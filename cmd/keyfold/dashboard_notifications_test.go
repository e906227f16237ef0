package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/chromiumtest"
	"keyfold/internal/testserver/must"
)

// pages serves the pages of the stack, whose profiles are away.
func (s *notifyStack) pages(t *testing.T, flags ...string) string {
	t.Helper()
	return pagesOf(t, append([]string{
		"--rabbitmq-dsn", s.dsn, "--notify-database-url", s.database, "--mongodb-uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500", "--embedder", "hash",
	}, flags...)...)
}

// The pages have what `notify event show`, `user show` and `deferrals stats` print of real decisions, and
// no title of a notification.
//
// Promise(dashboard/same-explanation)
func TestDashboardOfNotifications(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s, api := notifying(t)
	event := ""
	for i := range 6 { // the caps hold the last ones
		made := api.decided(posting("17", "UPDATE", fmt.Sprintf("Your secret order %d is on its way", i), fmt.Sprintf(`,"dedupe_key":"%d"`, i)))
		event = made.Record.EventID.String()
	}
	s.must(t, "user", "set", "17", `{"muted":["PROMO"]}`)
	api.decided(posting("17", "PROMO", "Everything at half the price"))
	at := s.pages(t)

	shows(t, at+"/notifications", "Decisions of the last 24 hours: 7", "NEVER MUTED 1", "Waiting: ")
	found := shows(t, at+"/notifications?q=17", "the page of user 17", "LATER", "NEVER", "MUTED")
	if strings.Contains(found, "secret") {
		t.Errorf("a title is shown: %s", found)
	}
	shows(t, at+"/notifications?q=anna", "No notification was decided for a user of this id")
	printed := s.must(t, "event", "show", event, "--stages")
	text := shows(t, at+"/notifications/"+event, "LATER", "Stages, with what each saw")
	says(t, printed, "secret")
	compared := 0
	for word := range strings.FieldsSeq(strings.ReplaceAll(printed, `"Your secret order 5 is on its way" `, "")) {
		if word = strings.Trim(word, `,:"`); word != "stages" {
			if compared++; !strings.Contains(text, word) {
				t.Errorf("the page lacks %q of what the command prints", word)
			}
		}
	}
	if compared < 100 || strings.Contains(text, "secret") {
		t.Errorf("%d words are compared: %s", compared, text)
	}
	v := unlocks(t, s.pages(t, "--actions", "--bodies"))
	res := v.post("/notifications/"+event, nil)
	page, err := io.ReadAll(res.Body)
	must.OK(t, errorsOf(err, res.Body.Close()))
	if !strings.Contains(string(page), "<h3>Your secret order 5 is on its way</h3>") {
		t.Errorf("with --bodies the title is not shown: %d %s", res.StatusCode, page)
	}
	beside := notifyListening.FindStringSubmatch(api.log.String())[1] + "/ui" // of the API
	if text := shows(t, beside+"/notifications/"+event, "Stages, with what each saw"); strings.Contains(text, "secret") {
		t.Errorf("a title is shown: %s", text)
	}
	shows(t, beside+"/rules", "set 1 in force since")
	if status, _ := api.call("GET", "/v1/nowhere", "", "", nil); status != http.StatusNotFound {
		t.Errorf("a path that is not there: %d", status)
	}
	decision := strings.Fields(printed)[1]
	shows(t, at+"/notifications/"+strings.TrimSuffix(decision, ","), "(asked for)")
	if res, err := http.Get(at + "/notifications/6f6c4d00-8000-4000-8000-00000000000f"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("an id that is not known: %v, %v", res, err)
	} else {
		_ = res.Body.Close()
	}
}

// person is one who has a token.
type person struct {
	t     *testing.T
	url   string
	token string
}

// send sends a form as the page does, with its file, and returns what is answered. It follows where
// that leads, and waits for what it began.
func (p *person) send(path string, fields url.Values) (status int, text, plan string) {
	p.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name := range fields {
		part := form.CreateFormField
		if name == "file" {
			part = func(name string) (io.Writer, error) { return form.CreateFormFile(name, "rules.json") }
		}
		field, err := part(name)
		must.OK(p.t, err)
		_, err = field.Write([]byte(fields.Get(name)))
		must.OK(p.t, err)
	}
	must.OK(p.t, form.Close())
	res := p.ask(http.MethodPost, path, form.FormDataContentType(), body.Bytes())
	page, err := io.ReadAll(res.Body)
	must.OK(p.t, errorsOf(err, res.Body.Close()))
	if res.StatusCode != http.StatusSeeOther {
		return res.StatusCode, string(page), ""
	}
	eventually(p.t, path+" has ended", func() error {
		led := p.ask(http.MethodGet, res.Header.Get("Location"), "", nil)
		page, err := io.ReadAll(led.Body)
		if err = errorsOf(err, led.Body.Close()); err != nil {
			return err
		}
		status = led.StatusCode
		text = strings.Join(strings.Fields(html.UnescapeString(pageMarkup.ReplaceAllString(string(page), " "))), " ")
		if strings.Contains(text, "under way since") || strings.Contains(text, "before it") {
			return fmt.Errorf("%s", text)
		}
		if found := planInPage.FindSubmatch(page); found != nil {
			plan = string(found[1])
		}
		return nil
	})
	return status, text, plan
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *person) ask(method, path, kind string, body []byte) *http.Response {
	p.t.Helper()
	r, err := http.NewRequest(method, p.url+path, bytes.NewReader(body))
	must.OK(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.token)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	must.OK(p.t, err)
	return res
}

func publishing(document, note, ifActive string) url.Values {
	return url.Values{"file": {document}, "note": {note}, "if-active": {ifActive}, "last": {"7"}, "sample": {"1"}, "back": {"/rules"}}
}

// A set is uploaded, checked, simulated and published by a form; of two people who publish, one does.
// A set with faults or failing cases has no button, and who has no admin scope is refused.
//
// Promise(dashboard/rules): A page publishes a set of rules only without faults, with its test cases passed, in place of
// the set that it showed; of two people one publishes.
func TestDashboardPublishesRules(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newNotifyStack(t)
	s.must(t, "setup")
	now := engine.Now()
	s.fill(t, []string{"1", "2", "3"}, notify.Now, now, 0)
	tokens := filepath.Join(t.TempDir(), "tokens")
	must.OK(t, os.WriteFile(tokens, []byte("reader-token-0001 read\nops-a-token-00001 read,admin\nops-b-token-00001 read,admin\n"), 0o600))
	at := s.pages(t, "--actions", "--http-token-file", tokens)
	reader, a, b := &person{t, at, "reader-token-0001"}, &person{t, at, "ops-a-token-00001"}, &person{t, at, "ops-b-token-00001"}

	next := strings.NewReplacer(`"5m": 3`, `"5m": 2`, `"version": "2026-11-28"`, `"version": "next"`).Replace(string(rule.Default()))
	next = withoutTests(t, next)
	for _, action := range []string{"rules.check", "rules.simulate", "rules.publish"} {
		if status, text, _ := reader.send("/plan/"+action, publishing(next, "x", "1")); status != http.StatusForbidden {
			t.Errorf("%s without the scope admin: %d %s", action, status, text)
		}
	}
	refuse := func(document, ifActive, note string, want ...string) {
		t.Helper()
		_, text, plan := a.send("/plan/rules.publish", publishing(document, note, ifActive))
		if says(t, text, want...); plan != "" {
			t.Errorf("there is a button: %s", text)
		}
	}
	refuse(`{"version":"1","mood":2,"rules":[]}`, "1", "x", "cannot be published", "mood")
	refuse(strings.Replace(string(rule.Default()), `"5m": 3`, `"5m": 4`, 1), "1", "x", "1 test case of 37 failed")
	refuse(strings.Replace(string(rule.Default()), `"outcome": "NOW"`, `"outcome": "NEVER"`, 1), "1", "x", "cannot be published", "version")
	refuse(string(rule.Default()), "1", "x", "nothing to publish")
	refuse(next, "1", "", "say why")
	refuse(next, "7", "x", "1 is in force, made by")
	refuse("", "1", "x", "no file was sent")
	_, text, plan := a.send("/plan/rules.check", publishing(next, "", "1"))
	if says(t, text, "it can be used"); plan != "" {
		t.Error("a check has a button")
	}
	_, text, plan = a.send("/plan/rules.simulate", publishing(next, "", "1"))
	if says(t, text, "was \\ would NOW LATER NEVER none", "of 3 decisions of 3 users"); plan != "" {
		t.Error("a simulation has a button")
	}

	_, text, planA := a.send("/plan/rules.publish", publishing(next, "fewer at once", "1"))
	says(t, text, "it has no test cases", "was \\ would NOW LATER NEVER none", "publish as 2, if 1 is active")
	_, _, planB := b.send("/plan/rules.publish", publishing(strings.Replace(next, `"next"`, `"other"`, 1), "mine", "1"))
	if status, _, _ := b.send("/do", url.Values{"plan": {planA}}); status != http.StatusConflict {
		t.Errorf("another's plan is answered with %d", status)
	}
	_, text, _ = a.send("/do", url.Values{"plan": {planA}})
	says(t, text, "Done", "published as the set 2 in place of 1")
	_, text, _ = b.send("/do", url.Values{"plan": {planB}})
	says(t, text, "2 is in force, made by", "fewer at once", "nothing was published")
	sets := s.sets(t)
	if len(sets) != 2 || !sets[0].InForce || sets[0].Note != "fewer at once" || sets[0].By == "" {
		t.Errorf("the sets are %+v", sets)
	}
	if page := a.read("/rules"); !strings.Contains(page, "set 2 in force since") || !strings.Contains(page, "fewer at once") {
		t.Errorf("the page of rules: %s", page)
	}
	diff := a.read("/rules/2/diff/1")
	for line := range strings.Lines(s.must(t, "rules", "diff", "1", "2")) {
		if strings.HasPrefix(line, "tests") {
			continue // they are long, and cut
		}
		for word := range strings.FieldsSeq(strings.ReplaceAll(line, "->", "")) {
			if !strings.Contains(diff, strings.TrimSuffix(word, ":")) {
				t.Errorf("the page of the difference lacks %q", word)
			}
		}
	}
	_, text, plan = a.send("/plan/rules.rollback", url.Values{"set": {"1"}, "back": {"/rules/1"}})
	says(t, text, "publish it as 3, if 2 is active", "What would be another")
	_, text, _ = a.send("/do", url.Values{"plan": {plan}})
	says(t, text, "the document of the set 1 is published as the set 3 in place of 2")
	if sets = s.sets(t); len(sets) != 3 || sets[0].Note != "rollback to 1" {
		t.Errorf("the sets are %+v", sets)
	}
	says(t, a.read("/audit"), "rules.publish", "rules.rollback", "failed: 2 is in force")
}

// read returns what a person reads of a page.
func (p *person) read(path string) string {
	p.t.Helper()
	res := p.ask(http.MethodGet, path, "", nil)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	must.OK(p.t, err)
	return strings.Join(strings.Fields(html.UnescapeString(pageMarkup.ReplaceAllString(string(page), " "))), " ")
}

// withoutTests drops the test cases of a document, which hold the policy that was changed.
func withoutTests(t *testing.T, document string) string {
	t.Helper()
	before, _, found := strings.Cut(document, `"tests": [`)
	if !found {
		t.Fatal("the document has no test cases")
	}
	return strings.TrimRight(strings.TrimSpace(before), ",") + "}"
}

// The pages of notifications and rules in Chromium; a set is uploaded and published there.
//
// Promise(dashboard/browser)
func TestDashboardOfNotificationsInABrowser(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newNotifyStack(t)
	now := engine.Now()
	events := s.fill(t, []string{"17", "18"}, notify.Later, now, now+7_200_000)
	at := s.pages(t, "--actions")
	shows(t, at+"/notifications", "Decisions of the last 24 hours: 2")
	b := chromiumtest.Open(t, at)
	walk(t, b, at, map[string]string{
		"notifications": "/notifications", "notifications-user": "/notifications?q=17", "notification": "/notifications/" + events[0].String(),
		"rules": "/rules", "rule": "/rules/1", "rule-same": "/rules/1/diff/1",
	})
	b.Set(chromiumtest.View{Width: 1280, Script: true})
	b.Go(at + "/rules")
	b.Press(`form[action$="/unlock"] button`, `input[type=file]`)
	file := filepath.Join(t.TempDir(), "rules.json")
	must.OK(t, os.WriteFile(file, []byte(withoutTests(t, strings.Replace(string(rule.Default()), `"5m": 3`, `"5m": 2`, 1))), 0o600))
	axe := func(where string) {
		t.Helper()
		if found := b.Axe(); len(found) > 0 {
			t.Errorf("%s: axe-core finds\n%s", where, strings.Join(found, "\n"))
		}
		_ = b.Faults() // axe-core's own
	}
	axe("the form")
	b.Do(chromedp.SetUploadFiles(`input[type=file]`, []string{file}), chromedp.SendKeys(`#note`, "fewer at once"), chromedp.Click(`form[enctype] button:not([formaction])`),
		chromedp.WaitVisible(`form[action$="/do"] button`))
	axe("the plan")
	if text := chromiumtest.Eval[string](b, `document.querySelector('form[action$="/do"] button').textContent`); text != "publish as 2, if 1 is active" {
		t.Errorf("the button says %q", text)
	}
	if shots := os.Getenv("KEYFOLD_SHOTS"); shots != "" {
		b.Shot(shots+"/publish.png", true)
	}
	b.Press(`form[action$="/do"] button`, `.job .ok`)
	if found := b.Faults(); len(found) > 0 {
		t.Errorf("%q", found)
	}
	if sets := s.sets(t); len(sets) != 2 || sets[0].Note != "fewer at once" {
		t.Errorf("the sets are %+v", sets)
	}
}
