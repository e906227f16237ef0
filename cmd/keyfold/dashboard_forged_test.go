package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"keyfold/internal/testserver/chromiumtest"
	"keyfold/source/outbox"
)

// A page of another site that a person has open in the same browser, who may change things, sends
// forms to the dashboard: nothing is done, and the log has a line.
//
// Promise(dashboard/foreign)
func TestFormsOfAnotherSiteDoNothing(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newShop(t, outbox.SQLite)
	s.importProducts(t)
	d := startDaemon(t, append([]string{"dashboard", "--dashboard-addr=127.0.0.1:0", "--actions"}, s.flags()...)...)
	url := foundIn(t, d.log, dashboardAddr)
	sent := make(chan string, 100)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sent" {
			sent <- r.URL.RawQuery
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href='data:,'><title>evil</title>")
		for _, path := range []string{"/unlock", "/plan/users.forget", "/do", "/login", "/logout"} {
			fmt.Fprintf(w, `<iframe name="f%[1]s"></iframe><form method="post" target="f%[1]s" action="%[2]s%[1]s"><input name="user" value="1"><input name="plan" value="x"></form>`, path, url)
		}
		fmt.Fprint(w, `<script>for (const f of document.forms) f.submit(); setTimeout(() => fetch("/sent?" + document.forms.length), 1000);</script>`)
	}))
	defer evil.Close()
	b := chromiumtest.Open(t, url)
	b.Set(chromiumtest.View{Width: 1280, Script: true})
	b.Go(url + "/users/1")
	// The person allows changes: that form is the page's own.
	b.Do(chromedp.Click(`form[action="/unlock"] button`), chromedp.WaitVisible(".mode.warn"))
	b.Go(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1))
	if n := <-sent; n != "5" {
		t.Fatalf("the page has %s forms", n)
	}
	eventually(t, "the forms are refused", func() error {
		if !strings.Contains(d.log.String(), `"reason":"foreign_origin"`) {
			return fmt.Errorf("logged %s", d.log)
		}
		return nil
	})
	// The line of the refusal may name the form that wanted to forget a user.
	if log := d.log.String(); strings.Count(log, `"a page has acted"`) != 1 || !strings.Contains(log, `"action":"unlock"`) {
		t.Errorf("something was done: %s", log)
	}
	_ = b.Faults() // the browser tells of what was refused
}
