// Package chromiumtest opens pages in a headless Chromium, and notes what a person would not
// see: errors in the console, and requests to other hosts. axe-core judges pages for people who
// use a keyboard or a screen reader; `.ci/axe` puts it in its place.
package chromiumtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

// Browser is a tab of a headless browser.
type Browser struct {
	t      testing.TB
	ctx    context.Context
	origin string // that pages may ask

	mu     sync.Mutex
	faults []string
}

// program is Chromium without a window's parts: it takes half the processor time of a whole one.
const program = "chromium-headless-shell"

// Open starts a browser until the test's end. Its pages may ask this origin alone.
func Open(t testing.TB, origin string) *Browser {
	t.Helper()
	path, err := process.Find(program, program)
	must.OK(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancelTab := chromedp.NewContext(ctx)
	ctx, cancelAll := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(func() {
		cancelAll()
		cancelTab()
		cancel()
	})
	return watching(ctx, t, origin)
}

// watching notes what pages of a tab do wrong.
func watching(ctx context.Context, t testing.TB, origin string) *Browser {
	t.Helper()
	b := &Browser{t: t, ctx: ctx, origin: origin}
	b.must(chromedp.Listen(ctx, b.note))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	b.must(err)
	return b
}

// Tab opens another tab of the same browser, which shares its connections, until the test's end.
func (b *Browser) Tab() *Browser {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return watching(ctx, b.t, b.origin)
}

func (b *Browser) must(err error) {
	b.t.Helper()
	must.OK(b.t, err)
}

// note keeps what a page did wrong.
func (b *Browser) note(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			fault += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		fault = fmt.Sprintf("console.%s: %d arguments", e.Type, len(e.Args))
	case *log.EventEntryAdded:
		fault = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, b.origin+"/") && !strings.HasPrefix(url, "data:") && url != "about:blank" {
			fault = "request to " + url
		}
	}
	if fault != "" {
		b.mu.Lock()
		b.faults = append(b.faults, fault)
		b.mu.Unlock()
	}
}

// Faults returns what pages did wrong since it was last called.
func (b *Browser) Faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.faults
	b.faults = nil
	return found
}

// View is how a person looks at pages.
type View struct {
	Width  int64
	Dark   bool
	Script bool
}

// Views are the ways to look at a page that tests take.
var Views = []View{{Width: 1280, Script: true}, {Width: 1280, Dark: true, Script: true}, {Width: 360, Script: true}, {Width: 1280}, {Width: 360, Dark: true}}

// Set has the next pages shown so.
func (b *Browser) Set(v View) {
	b.t.Helper()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	b.must(chromedp.Do(b.ctx, chromedp.EmulateViewport(v.Width, 800)))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.must(err)
	_, err = chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !v.Script})
	b.must(err)
}

// Go opens a page.
func (b *Browser) Go(url string) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx, chromedp.Navigate(url)))
}

// Do runs actions of chromedp.
func (b *Browser) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.must(chromedp.Do(b.ctx, actions...))
}

// pressAgain is how long a press may show nothing: a page that renews itself may have replaced the
// button under it.
const pressAgain = 20 * time.Second

// Press clicks a button until what it is to show is there.
func (b *Browser) Press(button, shows string) {
	b.t.Helper()
	within := func(limit time.Duration, actions ...chromedp.Action[chromedp.Void]) bool {
		ctx, cancel := context.WithTimeout(b.ctx, limit)
		defer cancel()
		return chromedp.Do(ctx, actions...) == nil
	}
	page := ""
	for b.ctx.Err() == nil {
		if within(pressAgain, chromedp.Click(button), chromedp.WaitVisible(shows)) || within(pressAgain, chromedp.WaitVisible(shows)) {
			return
		}
		ctx, cancel := context.WithTimeout(b.ctx, pressAgain)
		if now, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`)); err == nil {
			page = now
		}
		cancel()
	}
	b.t.Fatalf("%s shows no %s in 5 minutes: the page was then\n%s", button, shows, page)
}

// Eval returns the value of an expression in the page.
func Eval[T any](b *Browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	b.must(err)
	return value
}

// Shot writes a picture of what is seen, or of the whole page, into a file.
func (b *Browser) Shot(path string, all bool) {
	b.t.Helper()
	shot := chromedp.CaptureScreenshot()
	if all {
		shot = chromedp.FullScreenshot(100)
	}
	png, err := chromedp.Run(b.ctx, shot)
	b.must(err)
	b.must(os.WriteFile(path, png, 0o600))
}

// Axe returns the serious violations that axe-core finds in the page, each in a line.
func (b *Browser) Axe() (found []string) {
	b.t.Helper()
	cache, err := os.UserCacheDir()
	b.must(err)
	file := filepath.Join(cache, "keyfold", "axe-core", "axe.min.js")
	source, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatalf("%v: `.ci/axe` puts axe-core there", err)
	}
	b.must(chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[json.RawMessage](string(source)+";0"))
		return err
	})))
	type violation struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	violations, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]violation](`axe.run().then((r) => r.violations)`, chromedp.EvalAwaitPromise))
	b.must(err)
	for _, v := range violations {
		if v.Impact == "serious" || v.Impact == "critical" {
			found = append(found, fmt.Sprintf("%s: %s: %.300s", v.ID, v.Help, v.Nodes[0].HTML))
		}
	}
	return found
}
