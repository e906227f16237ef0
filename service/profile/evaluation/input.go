package evaluation

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
)

// Input is a log with what is needed to fold it.
type Input struct {
	Events   []profile.Event // taken over
	Refused  int             // lines that are no event
	Products map[int32]profile.Product
	// Vectors returns a vector for each thing, nil where it has none.
	Vectors    func(ctx context.Context, things []eval.Thing) ([][]float32, error)
	Model      string // of the vectors
	Sparse     bool   // most of their components are zero
	Laws       profile.Config
	Windows    eval.Windows       // as the worker holds them
	OnProgress func(answered int) // users, in all passes; may be nil
}

// Kinds of vectors that the input does not bring, or not alone.
const (
	Learned = "cooc"    // learned from the sessions of the warm-up
	ItemKNN = "knn"     // none: what sessions have in common
	Hybrid  = "learned" // those of the input, joined to learned ones
)

// Options say what is asked and compared.
type Options struct {
	eval.Options
	Vectors   string        // Learned, ItemKNN, Hybrid, or another word for those of the input
	Hybrid    Hybridity     // of Hybrid
	Age       time.Duration // of the newest event in a profile; negative: by the worker's windows
	HalfLives []HalfLife
	Mixes     []float64
	Cutoff    int
	Tables    bool // of ages, windows and weights, too
}

// Hybridity says what a hybrid is made of, as `products learn` takes it.
type Hybridity struct {
	Components int     // learned
	Share      float64 // of the learned vector
}

// Validate reports every fault at once.
func (o Options) Validate() error {
	var faults engine.Faults
	faults.If(o.Cutoff < 1 || o.Cutoff > 100, "the number of places is %d: it must be from 1 to 100", o.Cutoff)
	faults.If(len(o.HalfLives) == 0, "there is no half-life to compare")
	for _, mix := range o.Mixes {
		faults.If(!(mix > 0 && mix < 1), "the mix %v is not between 0 and 1", mix)
	}
	return errors.Join(o.Options.Validate(), faults.Err())
}

// HalfLife is one of the grid: 0 days take only the events of the newest instant, +Inf
// days all events alike.
type HalfLife struct {
	Name string
	Days float64
}

const dayMillis = 24 * 3600 * 1000

// lengthText writes a number of days in the unit that it is a few of.
func lengthText(days float64) string {
	switch {
	case days == 0:
		return "last"
	case math.IsInf(days, 1):
		return "never"
	}
	for _, unit := range []struct {
		days float64
		name string
	}{{1, "d"}, {1. / 24, "h"}, {1. / 1440, "m"}} {
		if days >= unit.days*0.9999 {
			return strconv.FormatFloat(math.Round(days/unit.days*10)/10, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(math.Round(days*86400*10)/10, 'f', -1, 64) + "s"
}
