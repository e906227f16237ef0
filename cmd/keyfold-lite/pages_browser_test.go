package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/chromiumtest"
)

// In a browser the page is whole with and without its script, in light, dark and on a phone:
// nothing stands in the console, no other host is asked, and axe-core finds no serious fault.
// With its script a posted event appears, is counted down and is folded with nothing clicked, and
// what the viewer chose stays.
func TestPagesInABrowser(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	data := filepath.Join(t.TempDir(), "data")
	if code, _, errs := lite(t, "", "--data", data, "--sample", "200", "--exit"); code != 0 {
		t.Fatal(errs)
	}
	url, _ := server(t, "--data", data, "--batch-window=1h", "--batch-max-delay=1h", "--batch-max-size=2")
	b := chromiumtest.Open(t, url)
	say := func(user int, phrase string) {
		t.Helper()
		body := fmt.Sprintf(`{"user_id":%d,"event_type":"search","search_phrase":%q,"occurred_at":%q}`, user, phrase, time.Now().UTC().Format(time.RFC3339Nano))
		if code, answer := post(t, url, body); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, answer)
		}
	}
	say(4242, "trail running shoes")
	say(4242, "running socks")
	pageShows(t, url+"/ui/users/4242", "events 2")
	say(4242, "garden hose")
	say(4242, "garden <b>shears</b>")
	pageShows(t, url+"/ui/users/4242", "events 4")
	say(4242, "watering can")
	pageShows(t, url+"/ui/users/4242", "1 event waits")

	pages := map[string]string{
		"overview": "/ui/", "users": "/ui/users", "no-id": "/ui/users?q=anna", "user": "/ui/users/1", "learning": "/ui/users/4242",
		"what-if": "/ui/users/4242?without=last-write&half-life=1h", "unknown": "/ui/users/99", "missing": "/ui/nothing",
	}
	for _, view := range chromiumtest.Views {
		b.Set(view)
		for name, path := range pages {
			b.Go(url + path)
			faults := b.Faults()
			if name == "missing" && len(faults) == 1 && strings.Contains(faults[0], "404") {
				faults = nil // the browser tells of the status
			}
			if len(faults) > 0 {
				t.Errorf("%+v %s: %q", view, name, faults)
			}
			if wide := chromiumtest.Eval[int](b, `document.documentElement.scrollWidth`); wide > int(view.Width) {
				t.Errorf("%+v %s scrolls sideways: it is %d wide", view, name, wide)
			}
			if shots := os.Getenv("KEYFOLD_SHOTS"); shots != "" { // a folder for pictures of all pages
				b.Shot(fmt.Sprintf("%s/%s-%d-dark=%t-script=%t.png", shots, name, view.Width, view.Dark, view.Script), view.Width < 1000)
			}
			if view.Script {
				if found := b.Axe(); len(found) > 0 {
					t.Errorf("%+v %s: axe-core finds\n%s", view, name, strings.Join(found, "\n"))
				}
				_ = b.Faults() // axe-core's own
			}
		}
	}
	watch(t, b, url, say)
}

// watch looks at a page that is left alone.
func watch(t *testing.T, b *chromiumtest.Browser, url string, say func(int, string)) {
	b.Set(chromiumtest.View{Width: 1280, Script: true})
	b.Go(url + "/ui/users/4242")
	seen := func(what, expression string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if chromiumtest.Eval[bool](b, "!!("+expression+")") {
				return
			}
		}
		t.Fatalf("%s is not seen: %s", what, chromiumtest.Eval[string](b, `document.querySelector("main").innerText`))
	}
	// What the viewer chose, and the element itself, are there after the refreshes.
	chromiumtest.Eval[bool](b, `(window.kept = document.querySelector("select[name=half-life]"), window.kept.value = "7d", window.kept.focus(), true)`)
	seen("the countdown", `/^\d+ s$/.test(document.querySelector("[data-left]")?.textContent) && Number(document.querySelector("[data-left]").textContent.split(" ")[0]) < 3600`)
	say(4242, "garden gloves")
	seen("the write", `!document.querySelector(".waits") && document.querySelector(".facts dd").textContent === "6"`)
	seen("a mark", `document.querySelectorAll(".up .moved, .new .moved").length > 0`)
	say(4242, "headlamp")
	seen("the next event", `document.querySelector(".waits")?.innerText.startsWith("● 1 event waits for its window, which is written in ") && document.querySelector("tr.waiting")?.innerText.includes("headlamp")`)
	seen("what was chosen", `window.kept.isConnected && window.kept.value === "7d" && document.activeElement === window.kept`)
	if faults := b.Faults(); len(faults) > 0 {
		t.Errorf("while it was watched: %q", faults)
	}
	// A choice is asked at once.
	chromiumtest.Eval[bool](b, `(window.kept.dispatchEvent(new Event("change", {bubbles: true})), true)`)
	seen("the answer", `location.search === "?without=&half-life=7d" && document.querySelector(".asked") !== null`)
}
