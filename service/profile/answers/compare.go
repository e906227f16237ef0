package answers

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/service/profile/recommend"
	"keyfold/source/catalog/similar"
)

// Names of the rows that answers are compared with, beside those of eval.
const (
	LastEvent = "last event"
	LastKNN   = "item kNN of the last event"
	LongKNN   = "item kNN, decayed"
)

// Compared are the rows that answers are compared with.
var Compared = []string{eval.Popularity, LastEvent, LastKNN, LongKNN}

// The settings that answers must be like.
const (
	long  = "the profile's vector"
	short = "the second vector"
)

// Evaluate has the API answer all that the log asks.
func Evaluate(ctx context.Context, in Input, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := in.timeline(o)
	if err != nil {
		return nil, err
	}
	answered, err := answerAll(ctx, &in, t, o)
	if err != nil {
		return nil, err
	}
	vectors, err := in.vectors(ctx, t.Things)
	if err != nil {
		return nil, err
	}
	plan, err := in.plan(o, answered, space(&in, t, vectors))
	if err != nil {
		return nil, err
	}
	main, err := t.Run(ctx, plan)
	if err != nil {
		return nil, err
	}
	neighbours, err := t.Run(ctx, in.neighbours(o, t))
	if err != nil {
		return nil, err
	}
	return report(&in, o, t, answered, main, neighbours), nil
}

func space(in *Input, t *eval.Timeline, vectors [][]float32) eval.Space {
	if in.Sparse {
		return similar.NewSparse(vectors, in.Laws.Dimensions, t.Candidates)
	}
	return similar.NewDense(vectors, in.Laws.Dimensions, t.Candidates)
}

// plan has the baselines by vectors, and what each kind of request must be answered with.
func (in *Input) plan(o Options, answered []*endpoint, s eval.Space) (eval.Plan, error) {
	plan := eval.Plan{
		Space: s, Visibility: eval.Age(o.Age.Milliseconds()), Baselines: true, Coverage: true, Cutoff: o.K, Far: o.K,
		Settings: []eval.Setting{in.setting(LastEvent, math.Inf(1)), in.setting(long, in.Laws.Lambda)},
	}
	plan.Settings[1].History = in.Laws.History
	if half := in.Laws.ShortHalfLife; half > 0 {
		plan.Settings = append(plan.Settings, in.setting(short, eval.Lambda(half.Hours()/24)))
	}
	for _, e := range answered {
		like, mix, err := in.like(e.ask)
		if err != nil {
			return plan, err
		}
		if mix > 0 && mix < 1 && !slices.ContainsFunc(plan.Mixes, func(m eval.Mix) bool { return m.Name == like }) {
			plan.Mixes = append(plan.Mixes, eval.Mix{Name: like, Short: 2, Long: 1, Share: mix})
		}
		plan.Given = append(plan.Given, eval.Given{Name: rowName(e.ask), Shown: e.shown, Like: like})
	}
	return plan, nil
}

func (in *Input) setting(name string, lambda float64) eval.Setting {
	return eval.Setting{Name: name, Lambda: lambda, History: profile.Mass, Weights: in.Laws.Weights}
}

// like returns the setting that a request must be answered with, and its mix; "" where no
// evaluation has it.
func (in *Input) like(ask string) (setting string, mix float64, err error) {
	values, err := url.ParseQuery(ask)
	if err != nil {
		return "", 0, err
	}
	if in.Laws.ShortHalfLife > 0 {
		mix = recommend.DefaultConfig().Mix
	}
	for name, value := range values {
		x, err := strconv.ParseFloat(value[0], 64)
		switch {
		case err != nil:
			return "", 0, fmt.Errorf("%s: %w", ask, err)
		case name == "mix":
			mix = x
		case x != 0:
			return "", 0, nil
		}
	}
	switch mix {
	case 0:
		return long, mix, nil
	case 1:
		return short, mix, nil
	}
	return fmt.Sprintf("a mix with %g of %s", mix, short), mix, nil
}

// neighbours is the plan of item kNN.
func (in *Input) neighbours(o Options, t *eval.Timeline) eval.Plan {
	return eval.Plan{
		Space: similar.NewNeighbours(t.Sessions(), t.Candidates), Visibility: eval.Age(o.Age.Milliseconds()), Coverage: true, Cutoff: o.K, Far: o.K,
		Settings: []eval.Setting{in.setting(LastKNN, math.Inf(1)), in.setting(LongKNN, in.Laws.Lambda)},
	}
}

func rowName(ask string) string {
	if ask == "" {
		return "endpoint"
	}
	return "endpoint " + ask
}

// quantile returns the time that a share of the requests took at most, in milliseconds.
func quantile(sorted []time.Duration, share float64) float64 {
	at := max(0, int(math.Ceil(share*float64(len(sorted))))-1)
	return math.Round(float64(sorted[at].Microseconds())/10) / 100
}
