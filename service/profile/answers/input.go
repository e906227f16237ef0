package answers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/engine/profile/processor"
	"keyfold/service/profile/recommend"
)

// Input is a log with what is needed to replay it.
type Input struct {
	Events   []profile.Event // taken over
	Refused  int             // lines that are no event
	Products map[int32]profile.Product
	Phrases  engine.Vectors[string]
	Vectors  string // names what the products' vectors are of
	Sparse   bool   // most of their components are zero
	Laws     processor.Config
	Store    profile.Profiles // empty; it is filled
	// OnProgress is told how many questions of how many are answered; may be nil.
	OnProgress func(answered, questions int)
}

// Options say what is asked.
type Options struct {
	WarmUp  float64           // share of the events that are asked nothing, from 0 to 1
	Targets profile.EventType // only events of this type are questions; 0: of every type
	Users   float64           // share of the users that are asked, chosen by their ids; 0: all there is time for
	Age     time.Duration     // of the newest event in a profile
	K       int               // how many products are asked for
	// Asks are the parameters of requests to compare, such as "mix=0.7", beside k and exclude.
	// "" is a request without any.
	Asks []string
}

// Validate reports every fault at once.
func (o Options) Validate() error {
	var faults engine.Faults
	faults.If(o.K < 1 || o.K > recommend.MaxK, "k is %d: it must be from 1 to %d", o.K, recommend.MaxK)
	faults.If(o.Age < 0, "the age is %v: it must not be negative", o.Age)
	faults.If(len(o.Asks) == 0, "there is no request to ask")
	for _, ask := range o.Asks {
		values, err := url.ParseQuery(ask)
		faults.If(err != nil || values.Has("k") || values.Has("exclude") || values.Has("category") || values.Has("explain"),
			"the parameters %q cannot be asked with: give such as mix=0.7, diversity=0.2 or both joined by &", ask)
	}
	return errors.Join(o.questions().Validate(), faults.Err())
}

func (o Options) questions() eval.Options {
	return eval.Options{WarmUp: o.WarmUp, Targets: o.Targets, Users: o.Users}
}

// vectors returns a vector for each thing of a timeline, nil where it has none.
func (in *Input) vectors(ctx context.Context, things []eval.Thing) ([][]float32, error) {
	all := make([][]float32, len(things))
	var phrases []string
	var at []int
	for i, thing := range things {
		if all[i] = in.Products[thing.Product].Vector; thing.Product == 0 {
			phrases, at = append(phrases, thing.Phrase), append(at, i)
		}
	}
	for i, r := range in.Phrases.Resolve(ctx, phrases) {
		if r.Err != nil && engine.KindOf(r.Err) != engine.Permanent {
			return nil, fmt.Errorf("the phrase %.40q has no vector: %w", phrases[i], r.Err)
		}
		for _, x := range r.Vector {
			all[at[i]] = append(all[at[i]], float32(x))
		}
	}
	return all, nil
}

// timeline lists the questions, of as many users as there is time for where no share is named.
func (in *Input) timeline(o Options) (*eval.Timeline, error) {
	known := func(id int32) bool { _, known := in.Products[id]; return known }
	questions := o.questions()
	if questions.Users == 0 {
		questions.Users = 1
	}
	t, err := eval.New(in.Events, known, questions)
	if err != nil {
		return nil, err
	}
	in.Events = in.Events[:t.Events] // in order, each once
	if share := affordable(t, len(o.Asks), in.Laws.Dimensions); o.Users == 0 && share < 1 {
		questions.Users = share
		repeated := t.Repeated
		if t, err = eval.New(in.Events, known, questions); err != nil {
			return nil, err
		}
		t.Repeated = repeated
	}
	if t.Questions[1] == 0 {
		return nil, fmt.Errorf("the log asks nothing: of %d product events after the warm-up %d are of products that the catalogue does not know, "+
			"%d of products without an event in the warm-up, %d of another type, %d are the first of their user, %d repeat what the user had met: give a longer log or its own catalogue",
			t.LeftOut.Products, t.LeftOut.Unknown, t.LeftOut.Cold, t.LeftOut.OtherType, t.LeftOut.First, t.LeftOut.Met)
	}
	return t, nil
}

// What a request costs, in multiplications: for itself, and for each component of each candidate.
// There is time for so many in some two minutes on two processors.
const (
	requestCost = 1e6
	mostCost    = 2.5e11
)

// affordable is the share of the users that there is time for. It is of the log alone, not of the
// machine, so that the same log gives the same answers everywhere.
func affordable(t *eval.Timeline, asks, dimensions int) float64 {
	cost := float64(t.Questions[1]*asks) * (requestCost + float64(t.Candidates*dimensions))
	return min(1, mostCost/cost)
}
