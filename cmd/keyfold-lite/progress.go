package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far the job is: on a terminal only, and never in the way
// of -o json.
type progress struct {
	bar   *progressbar.ProgressBar // nil: shows nothing
	bytes func() int64             // nil: at counts what is done itself
}

func newProgress(a *app, what string, total int64, bytes func() int64) *progress {
	p := &progress{bytes: bytes}
	f, ok := a.err.(*os.File)
	if !ok || a.json || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	if total == 0 {
		total = -1 // a spinner
	}
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(f),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish())
	return p
}

// at shows that n items are done.
func (p *progress) at(n int) {
	if p.bar == nil {
		return
	}
	done := int64(n)
	if p.bytes != nil {
		done = p.bytes()
	}
	_ = p.bar.Set64(done)
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
