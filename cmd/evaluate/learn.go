package evaluate

import (
	"errors"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/service/profile/products"
)

// Learnable are the flags of what is learned.
type Learnable struct {
	Components int      `default:"128" help:"Components that are learned."`
	Share      float64  `default:"0.5" help:"The learned vector's share in the cosine of two products, from 0 to 1."`
	Pause      cli.Span `name:"session-gap" default:"30m" help:"A pause that ends a session."`
}

// CheckLearnable judges them.
func (l *Learnable) CheckLearnable() error {
	var pause error
	if l.Pause <= 0 {
		pause = fmt.Errorf("--session-gap %v: it must be above 0", time.Duration(l.Pause))
	}
	return errors.Join(CheckLearned(l.Components, l.Share), pause)
}

// CheckLearned judges what is to be learned.
func CheckLearned(components int, share float64) error {
	var faults engine.Faults
	faults.If(components < 1 || components > profile.MaxLearned, "--components %d: it must be from 1 to %d", components, profile.MaxLearned)
	faults.If(!(share >= 0 && share <= 1), "--share %v: it must be from 0, the texts alone, to 1, what was learned alone", share)
	return faults.Err()
}

// Learning is that of products whose texts a model has made vectors of.
func (l *Learnable) Learning(textModel string, c settings.Config, progress func(what string, done, of int)) products.Learning {
	return products.Learning{
		TextModel: textModel, TextDimensions: c.TextDimensions(), Components: l.Components, Share: l.Share,
		Pause: millis(time.Duration(l.Pause)), Memory: c.Memory, Progress: progress,
	}
}

// Watcher shows the parts of a work one after the other.
type Watcher struct {
	console *cli.Console
	bar     *cli.Progress
	what    string
}

// Watch returns one that shows nothing yet.
func Watch(c *cli.Console) *Watcher { return &Watcher{console: c} }

// At shows how much of a part is done.
func (w *Watcher) At(what string, done, of int) {
	if w.what != what {
		w.Done()
		w.bar, w.what = w.console.Progress(what, int64(of), nil), what
	}
	w.bar.At(done)
}

// Done clears what is shown.
func (w *Watcher) Done() {
	if w.bar != nil {
		w.bar.Done()
	}
	w.bar, w.what = nil, ""
}

// PrintDropped tells of what there was no room for, and of what the catalogue does not know.
func PrintDropped(w *cli.Text, c products.Counts) {
	if c.Unknown > 0 {
		w.Line("left out: %s of products that the catalogue does not have", cli.Count(int64(c.Unknown), "event"))
	}
	if c.Dropped > 0 {
		w.Line("dropped for want of memory: %s of products, those that were seen least (a higher WORKER_MEMORY_LIMIT keeps more)", cli.Count(c.Dropped, "pair"))
	}
}

// PrintWritten tells what was written.
func PrintWritten(w *cli.Text, done products.Written, into string) {
	w.Line("%s written to %s: %s have no learned vector, %s no vector of a text, %s neither", cli.Count(int64(done.Products), "product"), into,
		cli.Number(int64(done.Cold)), cli.Number(int64(done.Textless)), cli.Number(int64(done.Neither)))
}
