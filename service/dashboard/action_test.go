package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/source/httpapi"
)

// shelf is what the tests' action clears.
type shelf struct {
	mu      sync.Mutex
	books   int
	cleared []int64 // as many as each run was allowed
	hold    chan struct{}
	fault   error
}

func (s *shelf) action() Action {
	return Action{
		Name: "shop.clear",
		Plan: func(ctx context.Context, form url.Values, _ *Progress) (*Planned, error) {
			if s.hold != nil {
				select {
				case <-s.hold:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			p := &Planned{Title: fmt.Sprintf("Clear %d books?", s.books), Of: "shelf " + form.Get("shelf"), Count: int64(s.books), Do: s.books, Final: true}
			if s.books > 0 {
				p.Button = fmt.Sprintf("clear %d", s.books)
			}
			return p, nil
		},
		Do: func(_ context.Context, planned *Planned, p *Progress) (*Outcome, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			n := min(planned.Do.(int), s.books)
			s.books -= n
			s.cleared = append(s.cleared, int64(n))
			p.At(int64(n), planned.Count)
			return &Outcome{Lines: []string{fmt.Sprintf("%d of %d cleared, the rest gone meanwhile", n, planned.Count)}, Count: int64(n)}, s.fault
		},
	}
}

// acting is a dashboard whose one action clears a shelf, with its log.
func acting(t testing.TB, s *shelf, config Config, guard httpapi.Config, now func() time.Time) (http.Handler, *Dashboard, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	sources := everything()
	sources.Actions = []Action{s.action()}
	config.Actions, config.Machine, config.Now, config.Sessions = true, "build-7", now, guard.Sessions
	d, err := New(config, sources, slog.New(slog.NewTextHandler(&log, nil)))
	must.OK(t, err)
	return guarded(t, d, guard), d, &log
}

func body(t testing.TB, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	must.OK(t, err)
	return string(text)
}

var planField = regexp.MustCompile(`name="plan" value="([^"]+)"`)

// planned asks for an action and returns the page that says what would be done, and its plan.
func planned(t testing.TB, s http.Handler, show ...func(*http.Request)) (page, plan string) {
	t.Helper()
	led := post(s, planPath+"shop.clear", url.Values{"shelf": {"3"}, "back": {"/users?q=x"}}, show...)
	if led.StatusCode != http.StatusSeeOther {
		t.Fatalf("the plan: %d %s", led.StatusCode, body(t, led))
	}
	_, page = get(t, s, led.Header.Get("Location"), show...)
	if found := planField.FindStringSubmatch(page); found != nil {
		plan = found[1]
	}
	return page, plan
}

// unlocked returns the cookie of a browser that may change something without a token.
func unlocked(t testing.TB, s http.Handler) func(*http.Request) {
	t.Helper()
	res := post(s, unlockPath, url.Values{"back": {"/workers"}})
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/workers" || len(res.Cookies()) != 1 {
		t.Fatalf("unlock: %d to %s with %v", res.StatusCode, res.Header.Get("Location"), res.Cookies())
	}
	return with(res.Cookies()[0])
}

// An action counts first, is done once by its button, and says what became of it; the audit log has it.
//
// Promise(dashboard/plans): An action is a dry run with its count, a button, and a result. A plan is done once, by the one
// who made it, within 5 minutes.
func TestAnActionIsPlannedThenDoneOnce(t *testing.T) {
	books := &shelf{books: 29}
	s, _, log := acting(t, books, Config{}, onLoopback(), time.Now)
	show := unlocked(t, s)
	page, plan := planned(t, s, show)
	for _, want := range []string{"Clear 29 books?", "clear 29", "no way back", `href="/users?q=x"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the plan does not say %q:\n%s", want, page)
		}
	}
	if len(books.cleared) != 0 {
		t.Fatal("planning has changed something")
	}
	books.books = 20 // nine went meanwhile
	led := post(s, doPath, url.Values{"plan": {plan}}, show)
	if _, page = get(t, s, led.Header.Get("Location"), show); !strings.Contains(page, "20 of 29 cleared, the rest gone meanwhile") || planField.MatchString(page) {
		t.Errorf("the result:\n%s", page)
	}
	if res := post(s, doPath, url.Values{"plan": {plan}}, show); res.StatusCode != http.StatusConflict || !strings.Contains(body(t, res), "nothing was done") {
		t.Errorf("the plan again: %d", res.StatusCode)
	}
	if len(books.cleared) != 1 || books.books != 0 {
		t.Errorf("it was done %d times", len(books.cleared))
	}
	_, page = get(t, s, auditPath, show)
	for _, want := range []string{"shop.clear", "shelf 3", "29", "20", "192.0.2.1", "refused", "unlock", "build-7"} {
		if !strings.Contains(page, want) {
			t.Errorf("the audit page has no %q", want)
		}
	}
	if n := strings.Count(log.String(), "component=audit"); n != 3 || !strings.Contains(log.String(), `planned=29 done=20 result=done`) || strings.Contains(log.String(), plan) {
		t.Errorf("%d lines in the log:\n%s", n, log)
	}
	if page, plan := planned(t, s, show); plan != "" || !strings.Contains(page, "Clear 0 books?") {
		t.Errorf("there is nothing to do, and a button: %s", page)
	}
}

// What fails half way says how much was done.
func TestAnActionThatFailsSaysWhatWasDone(t *testing.T) {
	books := &shelf{books: 5, fault: errors.New("the shelf fell")}
	s, _, log := acting(t, books, Config{}, onLoopback(), time.Now)
	show := unlocked(t, s)
	_, plan := planned(t, s, show)
	led := post(s, doPath, url.Values{"plan": {plan}}, show)
	_, page := get(t, s, led.Header.Get("Location"), show)
	for _, want := range []string{"Not all was done", "5 of 5 cleared", "the shelf fell"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if !strings.Contains(log.String(), `done=5 result="failed: the shelf fell"`) {
		t.Errorf("the log: %s", log)
	}
}

// A plan is refused that was altered, is another's, or is too old.
//
// Promise(dashboard/plans)
func TestPlansThatAreRefused(t *testing.T) {
	config := onLoopback()
	config.Tokens = []string{admin + " read,admin", whole, reader + " read"}
	config.Sessions = httpapi.NewSessions()
	books, now := &shelf{books: 3}, time.Now()
	s, d, _ := acting(t, books, Config{}, config, func() time.Time { return now })
	_, plan := planned(t, s, bearing(admin))
	refused := func(name, plan string, show func(*http.Request), want int) {
		t.Helper()
		if res := post(s, doPath, url.Values{"plan": {plan}}, show); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, want)
		}
	}
	for i := range plan {
		refused("altered", plan[:i]+string(plan[i]^1)+plan[i+1:], bearing(admin), http.StatusConflict)
	}
	refused("none", "", bearing(admin), http.StatusConflict)
	refused("another's", plan, bearing(whole), http.StatusConflict)
	refused("a reader's", plan, bearing(reader), http.StatusForbidden)
	refused("no token", plan, func(*http.Request) {}, http.StatusUnauthorized)
	if res, _ := get(t, s, doPath+"?plan="+plan, bearing(admin)); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", res.StatusCode)
	}
	if res, _ := get(t, s, planPath+"shop.clear", bearing(admin)); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of a plan: %d", res.StatusCode)
	}
	if res, _ := get(t, s, jobPath+"1", bearing(whole)); res.StatusCode != http.StatusNotFound {
		t.Errorf("another's page: %d", res.StatusCode)
	}
	now = now.Add(planLife + time.Second)
	refused("too old", plan, bearing(admin), http.StatusConflict)
	if len(books.cleared) != 0 {
		t.Errorf("a refused plan was done")
	}
	for range 3 * mostPlans {
		d.plans.keep(pending{planned: &Planned{Button: "x"}})
	}
	if len(d.plans.all) > mostPlans {
		t.Errorf("%d plans are kept", len(d.plans.all))
	}
}

// Pages change nothing unless the program was told so, and without tokens unless the browser was
// asked, which another site and a made-up cookie cannot do.
//
// Promise(dashboard/read-only): Pages change nothing unless --actions is given, and then for tokens with the scope admin, or on loopback
// after a click that names the machine.
func TestPagesOnlyReadUnlessTold(t *testing.T) {
	only := guarded(t, shownAs(t, Config{}, Sources{Actions: []Action{(&shelf{}).action()}}, nil), onLoopback())
	for _, path := range []string{planPath + "shop.clear", doPath, unlockPath, auditPath} {
		if res := post(only, path, nil); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s without actions: %d", path, res.StatusCode)
		}
	}
	if _, page := get(t, only, "/"); !strings.Contains(page, "read only") || strings.Contains(page, unlockPath) {
		t.Error("a page offers actions that there are not")
	}
	books, now := &shelf{books: 3}, time.Now()
	s, d, _ := acting(t, books, Config{}, onLoopback(), func() time.Time { return now })
	if _, page := get(t, s, "/users"); !strings.Contains(page, "allow changes on build-7") {
		t.Errorf("nothing asks for the machine:\n%s", page)
	}
	cookie := d.plans.unlockCookie()
	other := newPlans(time.Now).unlockCookie()
	for name, show := range map[string]func(*http.Request){
		"none": func(*http.Request) {}, "another process's": with(other), "short": with(&http.Cookie{Name: unlockName, Value: "AAAA"}),
		"altered": with(&http.Cookie{Name: unlockName, Value: cookie.Value[:20] + string(cookie.Value[20]^1) + cookie.Value[21:]}),
	} {
		if res := post(s, planPath+"shop.clear", nil, show); res.StatusCode != http.StatusForbidden {
			t.Errorf("a browser with the cookie %s: %d", name, res.StatusCode)
		}
	}
	_, page := get(t, s, "/users", with(cookie))
	if !strings.Contains(page, "may change things") {
		t.Error("the page does not say that it may change things")
	}
	now = now.Add(unlockLife)
	if res := post(s, planPath+"shop.clear", nil, with(cookie)); res.StatusCode != http.StatusForbidden {
		t.Errorf("after 12 hours: %d", res.StatusCode)
	}
}

// Work of a kind is done one at a time, in its order, is told of while it runs, and ends with the
// process.
func TestWorkOfAKindIsDoneInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newJobs(time.Now)
		var order []int
		release := make(chan struct{})
		work := func(ctx context.Context, j *job) error {
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
			order = append(order, j.id)
			return nil
		}
		var all []*job
		for range mostWait + 1 {
			all = append(all, k.begin("a", "a.b", "me", "/", work))
		}
		if k.begin("a", "a.b", "me", "/", work) != nil {
			t.Error("more than the bound wait")
		}
		other := k.begin("b", "b.c", "me", "/", func(context.Context, *job) error { return nil })
		synctest.Wait()
		if other.state != "ended" || all[0].state != "runs" || all[1].state != "waits" || len(k.before("a", all[2].id)) != 2 {
			t.Errorf("states %s, %s, %s", other.state, all[0].state, all[1].state)
		}
		for i := range all {
			release <- struct{}{}
			synctest.Wait()
			if len(order) != i+1 || order[i] != all[i].id {
				t.Fatalf("done in the order %v", order)
			}
		}
		last := k.begin("a", "a.b", "me", "/", work)
		k.close()
		if last.fault == "" || k.begin("a", "a.b", "me", "/", work) != nil {
			t.Error("work goes on after the end")
		}
	})
}

// renewed is in a page that renews itself where no script does.
const renewed = `<noscript><meta http-equiv="refresh" content="2"></noscript>`

// The page of an action that takes long renews itself, says how far it is, and later what came of it.
//
// Promise(dashboard/under-way): A page that says that something is under way renews itself; without a script too, but for a
// list with a form.
func TestThePageOfLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &shelf{books: 3, hold: make(chan struct{})}
		s, d, _ := acting(t, books, Config{}, onLoopback(), time.Now)
		show := with(d.plans.unlockCookie())
		first := post(s, planPath+"shop.clear", nil, show).Header.Get("Location")
		second := post(s, planPath+"shop.clear", nil, show).Header.Get("Location")
		if _, page := get(t, s, first, show); !strings.Contains(page, "under way since") || !strings.Contains(page, renewed) {
			t.Errorf("the first:\n%s", page)
		}
		if _, page := get(t, s, second, show); !strings.Contains(page, "1 before it is not done yet") || !strings.Contains(page, renewed) {
			t.Errorf("the second:\n%s", page)
		}
		close(books.hold)
		synctest.Wait()
		if _, page := get(t, s, second, show); !planField.MatchString(page) || strings.Contains(page, renewed) {
			t.Errorf("the second at its end:\n%s", page)
		}
		d.jobs.close()
		d.results.close()
	})
}

// A form is bounded, and must be one.
func TestFormsOfActions(t *testing.T) {
	s, d, _ := acting(t, &shelf{books: 1}, Config{}, onLoopback(), time.Now)
	show := with(d.plans.unlockCookie())
	if res := post(s, planPath+"shop.clear", url.Values{"shelf": {strings.Repeat("x", maxForm)}}, show); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large form: %d", res.StatusCode)
	}
	if res := post(s, planPath+"shop.burn", nil, show); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown action: %d", res.StatusCode)
	}
	r := httptest.NewRequest(http.MethodPost, planPath+"shop.clear", strings.NewReader("{}"))
	r.Host = "localhost:7090"
	r.Header.Set("Content-Type", "application/json")
	show(r)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("JSON: %d", w.Code)
	}
}
