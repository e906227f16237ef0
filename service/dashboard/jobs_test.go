package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Of many actions the page remembers the last ones, and each that has not ended: the next of its
// kind waits for it, and its page says what came of it.
func TestWorkThatHasNotEndedIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newJobs(time.Now)
		release := make(chan struct{})
		long := k.begin("a", "a.b", "me", "/", func(context.Context, *job) error { <-release; return nil })
		for range 2 * mostJobs {
			k.begin("b", "b.c", "me", "/", func(context.Context, *job) error { return nil })
			synctest.Wait()
		}
		if len(k.all) != mostJobs {
			t.Errorf("%d are remembered, want %d", len(k.all), mostJobs)
		}
		if k.find(long.id) == nil {
			t.Error("what runs is forgotten")
		}
		next := k.begin("a", "a.b", "me", "/", func(context.Context, *job) error { return nil })
		synctest.Wait()
		if next.state != "waits" {
			t.Errorf("the next of the kind %s, with the first under way", next.state)
		}
		close(release)
		k.close()
	})
}

// What an action was planned with may be large: it is held by the plan alone, and no longer than
// the plan may be done.
func TestWhatWasPlannedIsNotHeldLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d, _ := acting(t, &shelf{books: 3}, Config{}, onLoopback(), time.Now)
		show := with(d.plans.unlockCookie())
		if _, plan := planned(t, s, show); plan == "" {
			t.Fatal("there is no plan")
		}
		if d.jobs.find(1).planned.Do != nil {
			t.Error("the page of the action holds what the plan holds")
		}
		time.Sleep(planLife + time.Minute)
		synctest.Wait()
		if n := len(d.plans.all); n != 0 {
			t.Errorf("%d plans are held after their time", n)
		}
		d.jobs.close()
		d.results.close()
	})
}

// A plan whose turn cannot come now, because others wait already, can be done later.
func TestAPlanIsNotLostWhereOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := &shelf{books: 3}
		s, d, _ := acting(t, books, Config{}, onLoopback(), time.Now)
		show := with(d.plans.unlockCookie())
		_, plan := planned(t, s, show)
		books.hold = make(chan struct{})
		for range mostWait + 1 {
			if res := post(s, planPath+"shop.clear", nil, show); res.StatusCode != http.StatusSeeOther {
				t.Fatalf("a plan: %d", res.StatusCode)
			}
		}
		if res := post(s, doPath, url.Values{"plan": {plan}}, show); res.StatusCode != http.StatusServiceUnavailable || len(books.cleared) != 0 {
			t.Errorf("with so many before it: %d", res.StatusCode)
		}
		close(books.hold)
		synctest.Wait()
		if res := post(s, doPath, url.Values{"plan": {plan}}, show); res.StatusCode != http.StatusSeeOther || len(books.cleared) != 1 {
			t.Errorf("later: %d %s", res.StatusCode, body(t, res))
		}
		if res := post(s, doPath, url.Values{"plan": {plan}}, show); res.StatusCode != http.StatusConflict {
			t.Errorf("again: %d", res.StatusCode)
		}
		d.jobs.close()
		d.results.close()
	})
}

// Pages of actions stay within their bound with the longest texts.
func TestPagesOfActionsAreBounded(t *testing.T) {
	s, d, _ := acting(t, &shelf{}, Config{}, onLoopback(), time.Now)
	show := unlocked(t, s)
	long := strings.Repeat(`"<é`, 500)
	for range mostEntries {
		d.journal.keep(entry{Who: long, From: long, Action: long, Of: long, Result: long})
	}
	p := &Planned{Title: long, Button: long}
	for range 100 {
		p.Lines = append(p.Lines, long)
	}
	one := Titled{Title: long}
	one.Head = []string{"Fault", "Line", "Rule", "What is wrong"}
	for range 100 {
		one.Rows = append(one.Rows, []string{long, "1", long, long})
	}
	p.Tables = []Titled{one, one}
	j := d.jobs.begin("a", "a.b", "192.0.2.1", "/", func(_ context.Context, j *job) error { j.plan(p, "key"); return nil })
	<-j.ended
	for _, path := range []string{auditPath, jobPath + j.number()} {
		if _, page := get(t, s, path, show); len(page) > 60<<10 || !strings.Contains(page, "&lt;é") {
			t.Errorf("%s has %d bytes", path, len(page))
		}
	}
	d.jobs.close()
}
