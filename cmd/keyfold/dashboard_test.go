package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"keyfold/internal/testserver/chromiumtest"
	"keyfold/internal/testserver/must"
	"keyfold/source/sample"
)

var dashboardAddr = regexp.MustCompile(`"dashboard listening","url":"(http://[^"]+)/"`)

// startDashboard serves the pages of the installation, and returns their address.
func (w *watched) startDashboard(more ...string) (*daemon, string) {
	w.t.Helper()
	args := append([]string{"dashboard", "--dashboard-addr=127.0.0.1:0"}, w.call()[1:]...)
	d := startDaemon(w.t, append(w.flags(w.args(args...)...), more...)...)
	var url string
	eventually(w.t, "the dashboard listens", func() error {
		found := dashboardAddr.FindStringSubmatch(d.log.String())
		if found == nil {
			return fmt.Errorf("logged %s", d.log)
		}
		url = found[1]
		return nil
	})
	return d, url
}

// read returns a page.
func (w *watched) read(url string) string {
	w.t.Helper()
	res, err := http.Get(url)
	must.OK(w.t, err)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	must.OK(w.t, err)
	if res.StatusCode != http.StatusOK {
		w.t.Errorf("%s is answered with %d:\n%s", url, res.StatusCode, page)
	}
	return string(page)
}

// Every page is whole in a browser, in light and dark, on a phone, and without its script: nothing
// stands in the console, no other host is asked, and axe-core finds no serious fault.
//
// Promise(dashboard/browser): In Chromium each page, with and without script, light, dark, 360 px wide, has no fault in the
// console or by axe-core, and asks no other host.
func TestDashboardInABrowser(t *testing.T) {
	w := newWatched(t)
	w.publish(t, sample.Events(sample.DefaultConfig(50))...)
	var bodies [][]byte
	for i := range 11 {
		bodies = append(bodies, fmt.Appendf(nil, `{"user_id": %d}`, i))
	}
	w.publish(t, bodies...)
	dashboard, url := w.startDashboard()
	eventually(t, "there are plots and a problem", func() error {
		if page := w.read(url + "/"); !strings.Contains(page, "11 dead letters of profiles") || !strings.Contains(page, `class="plot"`) {
			return fmt.Errorf("the overview is %s", page)
		}
		return nil
	})
	b := chromiumtest.Open(t, url)
	walk(t, b, url, dashboardPages)
	b.Set(chromiumtest.View{Width: 1280, Script: true})
	keys(t, b, url)
	staysInPlace(t, b, url)
	if dashboard.stop() != 0 {
		t.Error("the dashboard ended with a fault")
	}
	eventually(t, "the page says that it is not refreshed", func() error {
		if text := chromiumtest.Eval[string](b, `document.getElementById("lost").textContent`); !strings.HasPrefix(text, "not refreshed since ") {
			return fmt.Errorf("%q", text)
		}
		return nil
	})
}

var dashboardPages = map[string]string{"overview": "/", "workers": "/workers", "alerts": "/alerts", "runbook": "/runbook", "search": "/runbook?q=disk", "missing": "/nowhere"}

// walk opens each page in each view.
func walk(t *testing.T, b *chromiumtest.Browser, url string, pages map[string]string) {
	t.Helper()
	shots := os.Getenv("KEYFOLD_SHOTS") // a folder for pictures of all pages
	for _, v := range chromiumtest.Views {
		b.Set(v)
		for name, path := range pages {
			began := time.Now()
			b.Go(url + path)
			gone := time.Since(began)
			faults := b.Faults()
			if name == "missing" && len(faults) == 1 && strings.Contains(faults[0], "404") {
				faults = nil // the browser tells of the status
			}
			if len(faults) > 0 {
				t.Errorf("%+v %s: %q", v, name, faults)
			}
			if wide := chromiumtest.Eval[int](b, `document.documentElement.scrollWidth`); wide > int(v.Width) {
				t.Errorf("%+v %s scrolls sideways: it is %d wide", v, name, wide)
			}
			if shots != "" {
				b.Shot(fmt.Sprintf("%s/%s-%d-dark=%t-script=%t.png", shots, name, v.Width, v.Dark, v.Script), v.Width < 1000)
			}
			if v.Script {
				if found := b.Axe(); len(found) > 0 {
					t.Errorf("%+v %s: axe-core finds\n%s", v, name, strings.Join(found, "\n"))
				}
				t.Logf("%s: page %v, all %v", name, gone, time.Since(began))
				_ = b.Faults() // axe-core's own
			}
		}
	}
}

// keys presses the keys of a page. Where they lead is noted, and not followed: Chromium answers no
// question while it leaves a page.
func keys(t *testing.T, b *chromiumtest.Browser, url string) {
	t.Helper()
	b.Go(url + "/")
	chromiumtest.Eval[bool](b, `(() => {
	  window.led = [];
	  document.addEventListener("click", (e) => { if (e.target.href) { e.preventDefault(); led.push(new URL(e.target.href).pathname); } });
	  document.addEventListener("submit", (e) => { if (e.target.role === "search") { e.preventDefault(); led.push(new FormData(e.target).get("q")); } });
	  return true;
	})()`)
	for _, key := range []string{"w", "a", "f", "r", "o"} {
		b.Do(chromedp.KeyEvent("g"), chromedp.KeyEvent(key))
	}
	b.Do(chromedp.KeyEvent("?"))
	if !chromiumtest.Eval[bool](b, `document.getElementById("keys").open`) {
		t.Error("? shows no keys")
	}
	b.Do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("/"), chromedp.KeyEvent("disk full"), chromedp.KeyEvent(kb.Enter))
	// The tool types the slash into the field as well, which no keyboard does.
	if led := chromiumtest.Eval[[]string](b, `led.map((one) => one.replace("/disk", "disk"))`); !slices.Equal(led, []string{"/workers", "/alerts", "/failures", "/runbook", "/", "disk full"}) {
		t.Errorf("the keys lead to %q", led)
	}
	if found := b.Faults(); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

// staysInPlace checks that refreshes leave alone what a person does: an open section, the focus,
// a selection, and what is typed; and that the plots are read out.
func staysInPlace(t *testing.T, b *chromiumtest.Browser, url string) {
	t.Helper()
	b.Go(url + "/")
	b.Do(chromedp.Click(`.problems details summary`), chromedp.SendKeys(`#search`, "half typ"))
	chromiumtest.Eval[bool](b, `(() => {
	  const text = [...document.querySelectorAll("td")].find((one) => one.textContent === "profiles: events").firstChild;
	  getSelection().setBaseAndExtent(text, 0, text, 8);
	  window.looks = new Set();
	  document.querySelector(".problems summary").focus();
	  return true;
	})()`)
	eventually(t, "the page was refreshed 5 times", func() error {
		if n := chromiumtest.Eval[int](b, `window.looks.add(document.getElementById("looked").dateTime).size`); n < 6 {
			return fmt.Errorf("%d looks", n)
		}
		return nil
	})
	for what, expression := range map[string]string{
		"the open section": `document.querySelector(".problems details").open`, "the selection": `getSelection().toString() === "profiles"`,
		"the focus": `document.activeElement === document.querySelector(".problems summary")`, "what is typed": `document.getElementById("search").value === "half typ"`,
	} {
		if !chromiumtest.Eval[bool](b, expression) {
			t.Errorf("%s is lost", what)
		}
	}
	at := chromiumtest.Eval[[]float64](b, `(() => { document.querySelector("svg.plot").scrollIntoView({block: "center"}); const r = document.querySelector("svg.plot").getBoundingClientRect(); return [r.x + r.width - 20, r.y + r.height / 2]; })()`)
	b.Do(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	if text := chromiumtest.Eval[string](b, `document.querySelector("output.values")?.textContent ?? ""`); !strings.Contains(text, "folded") {
		t.Errorf("the plot reads %q", text)
	}
	if found := b.Faults(); len(found) > 0 {
		t.Errorf("%q", found)
	}
}
