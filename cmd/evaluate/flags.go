package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/service/profile/evaluation"
	"keyfold/shard"
)

// Flags say what is asked and compared.
type Flags struct {
	HTML      string         `name:"html" placeholder:"FILE" help:"Also write a page with plots, which needs no network."`
	Targets   cli.EventType  `help:"Ask only for products of events of this type."`
	Repeats   bool           `help:"Also ask for products that the user has met before."`
	Horizon   cli.Span       `placeholder:"14d" help:"Ask once a day for all products of the time to come, instead of the next one."`
	K         int            `name:"k" default:"10" help:"Number of places that count as found."`
	WarmUp    float64        `name:"warm-up" default:"0.5" help:"Share of the events that are asked nothing: candidates and popularity come from them."`
	Choose    float64        `default:"0.25" help:"Share of the events after those, by which settings are chosen; 0: none are chosen. The rest is to test by."`
	Age       *time.Duration `placeholder:"15s" help:"Age of the newest event in a profile. Without it the worker's windows decide."`
	HalfLives []halfLife     `name:"half-lives" default:"last,1m,10m,1h,6h,1d,3d,7d,30d,90d,never" help:"Half-lives to compare."`
	Mixes     []float64      `default:"0.3,0.5,0.7" help:"Shares of a second vector to compare."`
	Users     float64        `default:"0" help:"Share of the users to ask, such as 0.2; the same users each time. 0: all, or as many as two minutes are enough for."`
	Control   bool           `help:"Give each event to a random user: a profile must then find no more than popularity does."`
	Tables    bool           `default:"true" negatable:"" help:"Compare ages, windows and weights, too."`

	Components int     `default:"128" help:"With --vectors learned: components that are learned."`
	Share      float64 `default:"0.5" help:"With --vectors learned: the learned vector's share in the cosine of two products, from 0 to 1."`
}

// halfLife is one of the grid: "last" (only the events of the newest instant), "never"
// (nothing decays), or a length of time.
type halfLife struct{ evaluation.HalfLife }

// UnmarshalText reads a half-life.
func (h *halfLife) UnmarshalText(text []byte) error {
	h.Name = string(text)
	switch h.Name {
	case "last":
		h.Days = 0
		return nil
	case "never":
		h.Days = math.Inf(1)
		return nil
	}
	var span cli.Span
	if err := span.UnmarshalText(text); err != nil {
		return fmt.Errorf(`%w, "last" or "never"`, err)
	}
	if span <= 0 {
		return fmt.Errorf(`%q is no half-life: "last" takes only the newest events`, text)
	}
	h.Days = time.Duration(span).Hours() / 24
	return nil
}

// Options are those of an evaluation.
func (f *Flags) Options(vectors string) evaluation.Options {
	target, _ := Target(f.Targets) // judged by [Flags.CheckFlags]
	age := time.Duration(-1)
	if f.Age != nil {
		age = *f.Age
	}
	halfLives := make([]evaluation.HalfLife, len(f.HalfLives))
	for i, h := range f.HalfLives {
		halfLives[i] = h.HalfLife
	}
	return evaluation.Options{
		Options: eval.Options{
			WarmUp: f.WarmUp, Choose: f.Choose, Targets: target, Repeats: f.Repeats,
			Horizon: millis(time.Duration(f.Horizon)), Users: f.Users, Control: f.Control,
		},
		Vectors: vectors, Hybrid: evaluation.Hybridity{Components: f.Components, Share: f.Share}, Age: age, HalfLives: halfLives, Mixes: f.Mixes, Cutoff: f.K, Tables: f.Tables,
	}
}

// Target returns the type of --targets, 0 for none.
func Target(name cli.EventType) (profile.EventType, error) {
	kind, err := name.Type()
	switch {
	case err != nil:
		return 0, fmt.Errorf("--targets: %w", err)
	case kind.HasPhrase():
		return 0, fmt.Errorf("--targets %s: a %[1]s is of no product that could be found: name another type", kind)
	}
	return kind, nil
}

// CheckFlags judges them.
func (f *Flags) CheckFlags() error {
	var age error
	if f.Age != nil && *f.Age < 0 {
		age = fmt.Errorf("--age %v is negative", *f.Age)
	}
	_, target := Target(f.Targets)
	return errors.Join(age, target, CheckLearned(f.Components, f.Share), cli.CheckPage("--html", f.HTML), f.Options("").Validate())
}

// Windows are a worker's, as an evaluation takes them.
func Windows(c shard.Config) (w eval.Windows) {
	if c.Batching {
		w = eval.Windows{Gap: millis(c.Window), Most: millis(c.MaxDelay)}
	}
	return w
}

// Evaluate evaluates, prints the report, and writes the page where one is asked for.
// vectors is the word for the kind of vectors.
func (f *Flags) Evaluate(ctx context.Context, c *cli.Console, in evaluation.Input, vectors string, lexical bool) error {
	bar := c.Progress("evaluating", 0, nil)
	in.OnProgress = bar.At
	report, err := evaluation.Evaluate(ctx, in, f.Options(vectors))
	bar.Done()
	if err != nil {
		return err
	}
	return f.emit(c, report, lexical)
}

func (f *Flags) emit(c *cli.Console, r *evaluation.Report, lexical bool) error {
	var written error
	if f.HTML != "" {
		written = page(r, lexical).WriteFile(f.HTML)
	}
	err := errors.Join(written, c.Emit(r, func(w *cli.Text) { text(w, r, lexical) }))
	if err == nil && f.HTML != "" && !c.JSON {
		fmt.Fprintf(c.Stderr, "plots: %s\n", f.HTML)
	}
	return err
}
