package cli

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows how far a job is: on a terminal only.
type Progress struct {
	bar   *progressbar.ProgressBar // nil: shows nothing
	steps func() int64             // nil: At is told
}

// Progress starts a bar of total steps on standard error, a spinner where total is
// 0. Where done is not nil it tells the steps done, otherwise At does. Nothing is
// shown where standard error is no terminal, or answers are JSON.
func (c *Console) Progress(what string, total int64, done func() int64) *Progress {
	p := &Progress{steps: done}
	f, ok := c.Stderr.(*os.File)
	if !ok || c.JSON || !term.IsTerminal(int(f.Fd())) {
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

// Shown reports whether the job is shown: on a terminal.
func (p *Progress) Shown() bool { return p.bar != nil }

// At shows that n items are done.
func (p *Progress) At(n int) {
	if p.bar == nil {
		return
	}
	done := int64(n)
	if p.steps != nil {
		done = p.steps()
	}
	_ = p.bar.Set64(done)
}

// Done clears the bar.
func (p *Progress) Done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
