package main

import (
	"fmt"
	"testing"
	"time"

	"keyfold/internal/testserver/chromiumtest"
)

// Eight tabs of one browser refresh side by side: none holds a connection, of which a browser has six
// to a server of HTTP/1.1.
//
// Promise(dashboard/tabs): Eight tabs over HTTP/1.1 load and refresh side by side: no tab holds a connection.
func TestDashboardInEightTabs(t *testing.T) {
	w := newWatched(t)
	_, url := w.startDashboard()
	first := chromiumtest.Open(t, url)
	tabs := []*chromiumtest.Browser{first}
	for range 7 {
		tabs = append(tabs, first.Tab())
	}
	pages := []string{"/", "/workers", "/alerts", "/runbook", "/users", "/users/1", "/?again", "/workers?again"}
	for i, tab := range tabs {
		began := time.Now()
		tab.Go(url + pages[i])
		t.Logf("%s is loaded after %v", pages[i], time.Since(began))
		if protocol := chromiumtest.Eval[string](tab, `performance.getEntriesByType("navigation")[0].nextHopProtocol`); protocol != "http/1.1" {
			t.Errorf("%s comes by %q", pages[i], protocol)
		}
		chromiumtest.Eval[bool](tab, `(() => {
		  window.looks = new Set();
		  const time = document.getElementById("looked");
		  new MutationObserver(() => looks.add(time.dateTime)).observe(time, {attributes: true});
		  return true;
		})()`)
	}
	for i, tab := range tabs {
		eventually(t, pages[i]+" was refreshed 3 times", func() error {
			if n := chromiumtest.Eval[int](tab, `looks.size`); n < 3 {
				return fmt.Errorf("%d looks; it says %q", n, chromiumtest.Eval[string](tab, `document.getElementById("lost").textContent`))
			}
			return nil
		})
	}
	for i, tab := range tabs {
		if !chromiumtest.Eval[bool](tab, `document.getElementById("lost").hidden && document.querySelector("[data-live]") !== null`) {
			t.Errorf("%s is lost", pages[i])
		}
		if faults := tab.Faults(); len(faults) > 0 {
			t.Errorf("%s: %q", pages[i], faults)
		}
	}
}
