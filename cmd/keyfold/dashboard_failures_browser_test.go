package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/chromiumtest"
	"keyfold/source/outbox"
	"keyfold/source/sample"
)

// The pages of failures, and an action on them, are whole in a browser, with and without script:
// a click allows changes, a button counts, and a second one does what was counted.
//
// Promise(dashboard/browser)
func TestDashboardOfFailuresInABrowser(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newShop(t, outbox.SQLite)
	s.exec(t, "INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, failed_at, last_error) VALUES (7, 'product_view', 1, '2026-02-10 14:30:00', '2026-02-10 14:31:00.000', 'no product')")
	then := time.Now().Add(-3 * time.Hour)
	for i, text := range []string{"<script>document.title='owned'</script>", "\u202egnp.exe", strings.Repeat("long ", 100)} {
		s.bury(t, buried{body: []byte(text), id: fmt.Sprintf("bad-%d", i), reason: engine.ReasonMalformedJSON, errors: []string{text, text}, at: then, firstSeen: then})
	}
	s.bury(t, given(sample.Events(sample.DefaultConfig(20))[:60])...)
	url := pagesOf(t, s.flags("--actions", "--bodies")...)
	shows(t, url+"/failures", "1-50 of 64")
	b := chromiumtest.Open(t, url)
	pages := map[string]string{
		"failures": "/failures", "failures-filtered": "/failures?reason=malformed_json&older=2h", "failures-none": "/failures?user=999", "failures-page": "/failures?page=2", "letter": "/failures/bad-0?where=broker", "row": "/failures/row-1?where=sql",
	}
	walk(t, b, url, pages)
	for left, script := range []bool{false, true} {
		b.Set(chromiumtest.View{Width: 1280, Script: script})
		b.Go(url + "/failures")
		if left == 0 {
			b.Press(`form[action="/unlock"] button`, `form[action="/plan/failures.remove"] button`)
		}
		walked(t, b, script, "the page with its buttons")
		id := fmt.Sprintf("bad-%d", left)
		b.Go(url + "/failures/" + id + "?where=broker")
		b.Press(`form[action^="/failures/"] button`, `pre`)
		walked(t, b, script, "the body")
		b.Press(`form[action="/plan/failures.remove"] button`, `form[action="/do"] button`)
		walked(t, b, script, "the plan")
		b.Press(`form[action="/do"] button`, `#job h1 .ok`)
		walked(t, b, script, "the result")
		if text := chromiumtest.Eval[string](b, `document.getElementById("job").textContent`); !strings.Contains(text, "1 of 1 removed") {
			t.Errorf("script %t: the result is %q", script, text)
		}
		if n := s.depth(t, failed); n != 62-left {
			t.Errorf("script %t: %d letters are left", script, n)
		}
	}
	if title := chromiumtest.Eval[string](b, `document.title`); strings.Contains(title, "owned") {
		t.Error("a text of a letter was executed")
	}
}

// walked checks the page that is shown.
func walked(t *testing.T, b *chromiumtest.Browser, script bool, what string) {
	t.Helper()
	if faults := b.Faults(); len(faults) > 0 {
		t.Errorf("script %t: %s: %q", script, what, faults)
	}
	if !script {
		return
	}
	if found := b.Axe(); len(found) > 0 {
		t.Errorf("%s: axe-core finds\n%s", what, strings.Join(found, "\n"))
	}
	_ = b.Faults() // axe-core's own
}
