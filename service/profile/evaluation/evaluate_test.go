package evaluation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/evaluation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topics = 20

// shop is a generated log: in sessions, users stay with a topic; in orders, each user has
// one topic for ever, of which with clicks only the clicks are; without taste, nothing says
// anything.
func shop(kind string, users, visits int) evaluation.Input {
	r := rand.New(rand.NewPCG(9, 0))
	in := evaluation.Input{Model: "planted", Laws: profile.DefaultConfig(), Windows: eval.Windows{Gap: 5000, Most: 15000}, Products: map[int32]profile.Product{}}
	in.Laws.Dimensions = topics
	for p := int32(1); p <= 400; p++ {
		in.Products[p] = profile.Product{ID: p}
	}
	at := int64(1_700_000_000_000)
	for visit := range users * visits {
		at += 200_000
		user := int32(visit % users)
		topic := r.IntN(topics)
		if kind == "orders" || kind == "clicks" {
			topic = int(user) % topics
		}
		for i := range int64(5) {
			product := int32(1 + topic + topics*r.IntN(20))
			if kind == "none" || kind == "clicks" && i < 4 {
				product = 1 + r.Int32N(400)
			}
			e := profile.Event{UserID: user + 1, OccurredAt: engine.Millis(at + 20_000*i), Type: profile.ProductView, ProductID: product, MessageID: fmt.Sprint(visit, ".", i)}
			if i == 4 {
				e.Type = profile.ProductClick
			}
			e.Digest = profile.DigestOf(e.MessageID)
			in.Events = append(in.Events, e)
		}
	}
	in.Vectors = func(_ context.Context, things []eval.Thing) (all [][]float32, err error) {
		for _, thing := range things {
			v := make([]float32, topics)
			v[int(thing.Product-1)%topics] = 1
			all = append(all, v)
		}
		return all, nil
	}
	return in
}

func options() evaluation.Options {
	return evaluation.Options{
		Options: eval.Options{WarmUp: 0.5, Choose: 0.25}, Age: -1, Cutoff: 10, Mixes: []float64{0.5}, Tables: true,
		HalfLives: []evaluation.HalfLife{{Name: "1m", Days: 1. / 1440}, {Name: "1d", Days: 1}, {Name: "30d", Days: 30.1}},
	}
}

func evaluate(t *testing.T, in evaluation.Input, o evaluation.Options) *evaluation.Report {
	t.Helper()
	report, err := evaluation.Evaluate(t.Context(), in, o)
	must.OK(t, err)
	return report
}

// A second vector is recommended where users change their minds, nothing where they do not or
// where there are too few of them.
func TestVerdictsFollowTheLog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind          string
		users, visits int
		second        bool
		why           string
	}{
		{"sessions", 120, 12, true, "the test part agrees"},
		{"orders", 120, 12, false, ""},
		{"none", 120, 12, false, ""},
		{"sessions", 30, 12, false, "a recommendation needs 200 of 50"},
	} {
		report := evaluate(t, shop(test.kind, test.users, test.visits), options())
		for _, v := range report.Verdicts {
			want := v.What == evaluation.SecondVector && test.second
			if v.Change != want {
				t.Errorf("%s of %d users: %+v", test.kind, test.users, v)
			}
			if v.What == evaluation.SecondVector && !strings.Contains(v.Why, test.why) {
				t.Errorf("%s of %d users: %q, want %q", test.kind, test.users, v.Why, test.why)
			}
		}
		if len(report.Verdicts) != 3 || report.Checked < 100 {
			t.Errorf("%s: verdicts %+v, %d questions checked", test.kind, report.Verdicts, report.Checked)
		}
	}
}

// An older profile finds less, and wider windows write less often.
func TestTablesFollowFreshness(t *testing.T) {
	t.Parallel()
	report := evaluate(t, shop("sessions", 120, 12), options())
	first, last := report.Ages[0], report.Ages[len(report.Ages)-1]
	if first.Mixed <= 2*last.Mixed || last.Name != "nightly" || first.Band.Low > first.Current || first.Band.High < first.Current {
		t.Errorf("ages %+v", report.Ages)
	}
	for i, w := range report.Windows[1:] {
		if before := report.Windows[i]; w.Writes > before.Writes || w.Mixed > before.Mixed+0.02 {
			t.Errorf("windows %+v then %+v", before, w)
		}
	}
	if report.Windows[0].Writes != 1 {
		t.Errorf("without windows: %v writes per event", report.Windows[0].Writes)
	}
}

// Equal input gives equal bytes.
func TestEqualBytes(t *testing.T) {
	t.Parallel()
	one, err := json.Marshal(evaluate(t, shop("sessions", 60, 10), options()))
	must.OK(t, err)
	two, err := json.Marshal(evaluate(t, shop("sessions", 60, 10), options()))
	if err != nil || string(one) != string(two) {
		t.Errorf("%v\n%s\n%s", err, one, two)
	}
}

// A setting that is rounded to the name of another one has a row of its own.
func TestNamesOfHalfLivesAreDifferent(t *testing.T) {
	t.Parallel()
	in := shop("orders", 60, 10)
	in.Laws.Lambda = eval.Lambda(1.03)
	report := evaluate(t, in, options())
	if own, other := report.Row("1d"), report.Row("1d exactly"); report.Current != "1d" || own == nil || other == nil || other.HalfLifeDays != 1 {
		t.Errorf("current %q: %+v, %+v", report.Current, own, other)
	}
}

// Without decay the current setting is "never", and the grid is compared all the same.
func TestTheGridIsKeptWithoutDecay(t *testing.T) {
	t.Parallel()
	in := shop("sessions", 60, 10)
	in.Laws.Lambda = 0
	report := evaluate(t, in, options())
	for _, name := range []string{"1m", "1d", "30d", "never"} {
		if report.Row(name) == nil || report.Current != "never" {
			t.Errorf("current %q: there is no row %q", report.Current, name)
		}
	}
}

// Where only clicks tell the topic, other weights than the current ones are recommended.
func TestWeightsAreChosen(t *testing.T) {
	t.Parallel()
	in := shop("clicks", 120, 12)
	in.Laws.Weights[profile.ProductView], in.Laws.Weights[profile.ProductClick] = 1, 0.25
	report := evaluate(t, in, options())
	v := report.Verdicts[len(report.Verdicts)-1]
	if v.What != "weights" || !v.Change || len(report.Weights) != 2 || report.Weights[1] <= report.Weights[0]/4 {
		t.Errorf("weights %v, %+v", report.Weights, v)
	}
}

// A log that asks nothing says why.
func TestNothingToAsk(t *testing.T) {
	t.Parallel()
	in := shop("orders", 10, 4)
	in.Products = map[int32]profile.Product{1000: {ID: 1000}}
	if _, err := evaluation.Evaluate(t.Context(), in, options()); err == nil || !strings.Contains(err.Error(), "the catalogue does not know") {
		t.Errorf("a foreign catalogue: %v", err)
	}
	if _, err := evaluation.Evaluate(t.Context(), evaluation.Input{Laws: profile.DefaultConfig()}, options()); err == nil {
		t.Error("no event: no error")
	}
	wrong := options()
	wrong.WarmUp, wrong.Mixes, wrong.Cutoff = 1.5, []float64{2}, 0
	if _, err := evaluation.Evaluate(t.Context(), in, wrong); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("wrong options: %v", err)
	}
}

// Each kind of vectors and of question has its report.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*evaluation.Options, *evaluation.Input){
		func(o *evaluation.Options, _ *evaluation.Input) { o.Vectors = evaluation.Learned },
		func(o *evaluation.Options, _ *evaluation.Input) { o.Vectors = evaluation.ItemKNN },
		func(o *evaluation.Options, _ *evaluation.Input) { o.Repeats = true },
		func(o *evaluation.Options, _ *evaluation.Input) { o.Targets = profile.ProductClick },
		func(o *evaluation.Options, _ *evaluation.Input) { o.Horizon = 3600_000; o.Choose = 0 },
		func(_ *evaluation.Options, in *evaluation.Input) { in.Laws.Lambda = 0 },
		func(_ *evaluation.Options, in *evaluation.Input) { in.Laws.History = profile.UnitMass },
	} {
		in, o := shop("sessions", 60, 10), options()
		change(&o, &in)
		report := evaluate(t, in, o)
		own := report.Row(report.Current)
		if own == nil || own.Test.HR <= report.Row(eval.Random).Test.HR {
			t.Errorf("%s by %s: %+v", report.Asked, report.Vectors, own)
		}
	}
}

// A hybrid with no share of what is learned finds what the texts find, and one of texts that
// say nothing what sessions say. It is learned from the warm-up alone: what follows it changes
// nothing of it.
func TestHybridFindsWhatSessionsSay(t *testing.T) {
	t.Parallel()
	o := options()
	o.Tables, o.Choose = false, 0
	o.Hybrid.Components = 32
	plain := evaluate(t, shop("sessions", 120, 12), o)
	o.Vectors = evaluation.Hybrid
	same := evaluate(t, shop("sessions", 120, 12), o)
	if texts := same.Row(evaluation.TextsAlone); texts.Test != plain.Row(plain.Current).Test || plain.Row(evaluation.TextsAlone) != nil {
		t.Errorf("the texts alone: %+v", texts)
	}
	if current := plain.Row(plain.Current); same.Row(same.Current).Test != current.Test {
		t.Errorf("share 0: %+v, want %+v", same.Row(same.Current).Test, current.Test)
	}
	mute := func(share float64) *evaluation.Report {
		in := shop("sessions", 120, 12)
		in.Vectors = func(_ context.Context, things []eval.Thing) (all [][]float32, err error) {
			for range things {
				all = append(all, []float32{1, 19: 0})
			}
			return all, nil
		}
		o.Hybrid.Share = share
		return evaluate(t, in, o)
	}
	none, half := mute(0), mute(0.5)
	if none.Row(none.Current).Test.HR*2 > half.Row(half.Current).Test.HR || half.Checked == 0 || !strings.Contains(half.Vectors, "32 components learned") {
		t.Errorf("%s: %+v, without %+v", half.Vectors, half.Row(half.Current).Test, none.Row(none.Current).Test)
	}
}
