package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/broker"
	"keyfold/source/outbox"
	"keyfold/source/sample"
)

// acting is a browser, as far as forms go, that a dashboard lets change something.
type acting struct {
	t      *testing.T
	url    string
	cookie string
}

func actingOn(t *testing.T, url string) *acting {
	t.Helper()
	a := &acting{t: t, url: url}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(url+"/unlock", nil)
	must.OK(t, err)
	res.Body.Close()
	a.cookie, _, _ = strings.Cut(res.Header.Get("Set-Cookie"), ";")
	if a.cookie == "" {
		t.Fatalf("the browser gets no cookie: %d", res.StatusCode)
	}
	return a
}

// ask sends a request and returns the page that it leads to, and what a person reads of it.
func (a *acting) ask(method, path string, form url.Values) (page, text string, err error) {
	r, err := http.NewRequest(method, a.url+path, strings.NewReader(form.Encode()))
	must.OK(a.t, err)
	r.Header.Set("Cookie", a.cookie)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	page = string(body)
	return page, strings.Join(strings.Fields(html.UnescapeString(pageMarkup.ReplaceAllString(page, " "))), " "), err
}

// reads waits until a page has these texts.
func (a *acting) reads(path string, want ...string) (page, text string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%s has %q", path, want), func() (err error) {
		if page, text, err = a.ask(http.MethodGet, path, nil); err != nil {
			return err
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				return fmt.Errorf("it is %s", text)
			}
		}
		return nil
	})
	return page, text
}

var planOf = regexp.MustCompile(`name="plan" value="([^"]+)"`)

// plan asks for an action on failures, and returns what would be done and the form's plan.
func (a *acting) plan(action, of string) (text, plan string) {
	a.t.Helper()
	page, text := a.ended("/plan/failures."+action, url.Values{"of": {of}, "back": {"/failures?" + of}})
	if found := planOf.FindStringSubmatch(page); found != nil {
		plan = found[1]
	}
	return text, plan
}

// do does what was planned, and returns what became of it.
func (a *acting) do(plan string) string {
	a.t.Helper()
	_, text := a.ended("/do", url.Values{"plan": {plan}})
	return text
}

// ended sends a form, and waits for the end of what it begins.
func (a *acting) ended(path string, form url.Values) (page, text string) {
	a.t.Helper()
	page, text, err := a.ask(http.MethodPost, path, form)
	must.OK(a.t, err)
	job := regexp.MustCompile(`href="(/jobs/\d+)">look again`).FindStringSubmatch(page)
	if job == nil {
		return page, text
	}
	eventually(a.t, job[1]+" ends", func() error { // it takes longer than a request waits
		page, text, err = a.ask(http.MethodGet, job[1], nil)
		must.OK(a.t, err)
		if strings.Contains(page, "look again") {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	})
	return page, text
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in %s", w, text)
		}
	}
}

// The page of failures shows what `failed list` prints of rows and letters, and retries, removes and
// archives them by forms, each after a dry run: what was counted, and no more.
//
// Promise(dashboard/failures)
func TestDashboardOfFailures(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newShop(t, outbox.SQLite)
	s.exec(t, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, failed_at, last_error) VALUES (7, 'product_view', 1, '2026-02-10 14:30:00', '2026-02-10 14:31:00.000', 'no product')")
	letters := given(sample.Events(sample.DefaultConfig(10))[:29])
	then := time.Now().Add(-2 * time.Hour)
	for i := range 5 {
		letters = append(letters, buried{body: []byte("no \x1b[31mJSON"), id: fmt.Sprintf("bad-%d", i), reason: engine.ReasonMalformedJSON, errors: []string{"no JSON <b>"}, at: then, firstSeen: then})
	}
	s.bury(t, letters...)
	a := actingOn(t, pagesOf(t, s.flags("--actions", "--bodies")...))
	_, text := a.reads("/failures", "1-35 of 35", "dead letters of profiles: 34", "rows that were set aside in SQL: 1")
	for line := range strings.Lines(s.must(t, "failed", "list", "--limit=0")) {
		cells := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1)
		if cells[0] == "WHERE" {
			continue
		}
		for i, cell := range cells {
			if i != 7 && !strings.Contains(text, cell) {
				t.Errorf("the command prints %q of %q, which the page has not: %s", cell, line, text)
			}
		}
	}

	plan, key := a.plan("retry", "reason="+engine.ReasonRetriesExhausted)
	has(t, plan, "Retry 29 failures?", "would replay 29, skipped 0, failed 0", "dead letters of profiles retries_exhausted 29 0", "retry 29")
	has(t, a.do(key), "29 of 29 retried", "replayed 29, skipped 0, failed 0")
	ids := idsOf(s.dump(t, replayable))
	slices.Sort(ids)
	if len(ids) != 29 || len(slices.Compact(ids)) != 29 || s.depth(t, failed) != 5 {
		t.Errorf("%d letters were replayed, %d are left", len(ids), s.depth(t, failed))
	}
	has(t, a.do(key), "nothing was done")
	a.reads("/failures", "1-6 of 6", "dead letters of profiles: 5")

	plan, key = a.plan("retry", "where=broker")
	has(t, plan, "would replay 0, skipped 5", "malformed_json 0 5")
	if key != "" {
		t.Error("what a worker would refuse again has a button")
	}
	plan, key = a.plan("retry", "key=row-1&where=sql")
	has(t, plan, "1 row would be given back to the relay", "retry 1")
	has(t, a.do(key), "1 of 1 retried", "1 row given back to the relay")
	if n := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE failed_at IS NOT NULL"); n != 0 {
		t.Errorf("%d rows are set aside", n)
	}

	page, _ := a.reads("/failures/bad-0?where=broker", "malformed_json", "error 1 no JSON <b>", "worker test-host", "header x-original-timestamp")
	if strings.Contains(page, "bm8g") {
		t.Error("the body is shown unasked")
	}
	_, text, err := a.ask(http.MethodPost, "/failures/bad-0?where=broker", nil)
	must.OK(t, err)
	has(t, text, "original message", "base64: bm8gG1szMW1KU09O")

	plan, key = a.plan("remove", "reason="+engine.ReasonMalformedJSON)
	has(t, plan, "Remove 5 failures?", "5 dead letters would be discarded", "There is no way back")
	s.must(t, "failed", "remove", "bad-0", "--yes") // one goes meanwhile
	has(t, a.do(key), "4 of 5 removed, the rest gone meanwhile", "4 dead letters discarded")
	a.reads("/failures", "1 fewer since", "1-1 of 1")
	a.reads("/failures?read=again", "as of", "Nothing has failed")
	_, text = a.reads("/audit", "failures.retry reason retries_exhausted 29 29 done", "failures.remove reason malformed_json 5 4 done", "failures.show where broker, letter bad-0")
	if strings.Contains(text, "bm8g") {
		t.Error("the audit log has a body")
	}

	s.bury(t, given(sample.Events(sample.DefaultConfig(10))[:3])...)
	_, key = a.plan("archive", "")
	has(t, a.do(key), "3 of 3 archived", "3 dead letters archived")
	if n := s.count(t, "SELECT COUNT(*) FROM keyfold_failed"); n != 3 || s.depth(t, failed) != 0 {
		t.Errorf("%d letters are archived, %d are left", n, s.depth(t, failed))
	}
}

// A dashboard that is killed during a replay loses nothing, leaves copies of one batch at most, and
// the same action once more ends it. KEYFOLD_SOAK=1 replays 10,000 letters.
//
// Promise(event/replay)
func TestDashboardKilledWhileItRetries(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newStack(t)
	n := 3000
	if long {
		n = 10_000
	}
	var letters []buried
	var bodies [][]byte
	known := map[string]bool{}
	for _, l := range given(sample.Events(sample.DefaultConfig(n / 5))) {
		if !known[l.id] && len(letters) < n { // some events come twice
			known[l.id] = true
			letters, bodies = append(letters, l), append(bodies, l.body)
		}
	}
	if n != len(letters) {
		t.Fatalf("%d events", len(letters))
	}
	for attempt := 1; ; attempt++ {
		s.bury(t, letters...)
		if s.killedMeanwhile(t, n) {
			break
		}
		if attempt == 10 {
			t.Fatal("all was replayed each time before the kill")
		}
		ch, hangUp := s.channel(t)
		_, err := ch.QueuePurge(replayable, false)
		must.OK(t, err)
		hangUp()
	}
	dead, live := idsOf(s.dump(t, failed)), idsOf(s.dump(t, replayable))
	all, copies := map[string]int{}, 0
	for _, id := range append(slices.Clone(dead), live...) {
		all[id]++
	}
	for id, times := range all {
		if times > 2 {
			t.Errorf("%s is there %d times", id, times)
		}
		copies += times - 1
	}
	t.Logf("of %d letters, %d are left and %d were replayed; %d are both", n, len(dead), len(live), copies)
	if len(all) != n || copies > 256 {
		t.Errorf("%d of %d events are there, %d of them twice", len(all), n, copies)
	}
	a := actingOn(t, pagesOf(t, s.flags("--actions")...))
	a.reads("/failures", "dead letters of profiles: ")
	plan, key := a.plan("retry", "")
	has(t, plan, fmt.Sprintf("would replay %d, skipped 0, failed 0", len(dead)))
	a.do(key)
	if left := s.depth(t, failed); left != 0 {
		t.Errorf("%d letters are left", left)
	}
	s.work(t, quick).ready()
	s.settled(t, s.expect(t, bodies))
}

// killedMeanwhile kills a dashboard while it retries n letters, and reports whether some were left.
func (s *stack) killedMeanwhile(t *testing.T, n int) bool {
	t.Helper()
	program, log := asProcess(append([]string{"dashboard", "--dashboard-addr=127.0.0.1:0", "--actions"}, s.flags()...)...)
	must.OK(t, program.Start())
	defer func() { _ = program.Wait() }() // it was killed
	defer func() { _ = program.Process.Kill() }()
	var found []string
	eventually(t, "the dashboard listens", func() error {
		if found = pageAddress.FindStringSubmatch(log.String()); found == nil {
			return fmt.Errorf("logged %s", log)
		}
		return nil
	})
	a := actingOn(t, found[1])
	a.reads("/failures", "dead letters of profiles: ")
	plan, key := a.plan("retry", "")
	has(t, plan, fmt.Sprintf("would replay %d,", n))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = a.ask(http.MethodPost, "/do", url.Values{"plan": {key}}) // no answer comes
	}()
	eventually(t, "some are replayed", func() error {
		if got := s.depth(t, replayable); got < n/20 {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
	must.OK(t, program.Process.Kill())
	<-ended
	left := 0
	eventually(t, "the broker has back what the dashboard held", func() error {
		dead, live := idsOf(s.dump(t, failed)), idsOf(s.dump(t, replayable))
		all := append(slices.Clone(dead), live...)
		slices.Sort(all)
		if left = len(dead); len(slices.Compact(all)) < n {
			return fmt.Errorf("%d letters and %d replayed", len(dead), len(live))
		}
		return nil
	})
	return left > 0
}

// Dead letters of notifications are on the same page, each kind in its place, and go back to where
// they came from.
func TestDashboardOfFailuresOfNotifications(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newNotifyLetters(t)
	a := actingOn(t, pagesOf(t, "--rabbitmq-dsn", s.dsn, "--notify-database-url", "postgres://keyfold@127.0.0.1:1/ledger", "--mongodb-uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500",
		"--embedder", "hash", "--actions"))
	a.reads("/failures", "dead letters of notifications: 3", "dead letters of delivery reports: 1", "1-4 of 4", "event_id_of_another_user", "unknown_decision", "bert")
	a.reads("/failures?where=notifications&user=anna", "1-1 of 1")
	plan, key := a.plan("retry", "where=notifications")
	has(t, plan, "would replay 2, skipped 1, failed 0", "dead letters of notifications bad_event 0 1")
	has(t, a.do(key), "2 of 2 retried")
	if urgent, bulk := s.take(t, broker.Urgent().Queue), s.take(t, broker.Bulk().Queue); len(urgent) != 1 || len(bulk) != 1 {
		t.Errorf("%d urgent events and %d others are back", len(urgent), len(bulk))
	}
	plan, key = a.plan("remove", "where=deliveries")
	has(t, plan, "Remove 1 failure?")
	has(t, a.do(key), "1 of 1 removed")
	a.reads("/failures", "1-1 of 1", "dead letters of notifications: 1")
}

// A quorum queue takes letters back a while after a pass: a plan right behind another pass counts
// them all the same.
func TestPlansBehindAPassOverAQuorumQueue(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := unsetStack(t)
	s.setUp(t, "--rabbitmq-queue-type=quorum")
	const n = 300
	s.bury(t, given(sample.Events(sample.DefaultConfig(n / 5))[:n])...)
	a := actingOn(t, pagesOf(t, s.flags("--actions", "--rabbitmq-queue-type=quorum")...))
	a.reads("/failures", fmt.Sprintf("1-50 of %d", n))
	for range 4 {
		plan, _ := a.plan("remove", "")
		has(t, plan, fmt.Sprintf("Remove %d failures?", n))
	}
	a.reads("/failures?read=again", fmt.Sprintf("1-50 of %d", n))
}
