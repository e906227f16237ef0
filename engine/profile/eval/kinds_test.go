package eval_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog/similar"
)

// diary is a log that is small enough to answer by hand: products 1 to 4 whose vectors
// are the axes, each met in the warm-up by user 9.
func diary(events ...profile.Event) []profile.Event {
	start := engine.Millis(1_700_006_400_000) / day * day
	for i := range int32(4) {
		events = append(events, profile.Event{UserID: 9, ProductID: i + 1, OccurredAt: engine.Millis(i), Type: profile.ProductView})
	}
	for i := range events {
		events[i].OccurredAt += start
		events[i].MessageID = fmt.Sprint(i)
		events[i].Digest = profile.DigestOf(events[i].MessageID)
	}
	return events
}

func of(user, product int32, at engine.Millis, kind profile.EventType) profile.Event {
	return profile.Event{UserID: user, ProductID: product, OccurredAt: at, Type: kind}
}

// answerDiary has a profile without decay answer, with one place that counts.
func answerDiary(t *testing.T, events []profile.Event, o eval.Options, plan eval.Plan) (*eval.Timeline, *eval.Result) {
	t.Helper()
	line, err := eval.New(events, func(int32) bool { return true }, o)
	must.OK(t, err)
	vectors := make([][]float32, len(line.Things))
	for i, thing := range line.Things {
		vectors[i] = make([]float32, 4)
		vectors[i][thing.Product-1] = 1
	}
	plan.Space, plan.Visibility, plan.Baselines = similar.NewDense(vectors, 4, line.Candidates), eval.Age(0), true
	plan.Settings = []eval.Setting{{Name: "never", Lambda: 0, History: profile.Mass, Weights: profile.DefaultWeights()}}
	if plan.Cutoff == 0 {
		plan.Cutoff = 1
	}
	result, err := line.Run(t.Context(), plan)
	must.OK(t, err)
	return line, result
}

// With a horizon one question a day asks for all new products until its end.
func TestHorizonAsksOnceADayForAllThatFollows(t *testing.T) {
	t.Parallel()
	events := func() []profile.Event {
		return diary(
			of(1, 1, hour, profile.ProductView),
			of(1, 2, 30*hour, profile.ProductView), of(1, 3, 31*hour, profile.ProductView), of(1, 2, 32*hour, profile.ProductView), // one question: 2 and 3
			of(1, 4, 60*hour, profile.ProductView), // the horizon reaches past the log: none
		)
	}
	line, result := answerDiary(t, events(), eval.Options{WarmUp: 0.5, Horizon: 12 * hour}, eval.Plan{Cutoff: 2})
	// The profile has product 1 only: 2, 3 and 4 share three places, two of which count.
	if got := result.Row("never").Test; line.Questions[1] != 1 || math.Abs(got.HR-2./3) > 1e-12 {
		t.Errorf("%d questions, recall %v, want 2/3", line.Questions[1], got.HR)
	}
	// Of two that follow, one place can find one: the best recall is 1.
	if _, result := answerDiary(t, events(), eval.Options{WarmUp: 0.5, Horizon: 12 * hour}, eval.Plan{Cutoff: 1}); math.Abs(result.Row("never").Test.HR-2./3) > 1e-12 {
		t.Errorf("one place: recall %v, want 2/3", result.Row("never").Test.HR)
	}
	if line, _ := answerDiary(t, events(), eval.Options{WarmUp: 0.5}, eval.Plan{}); line.Questions[1] != 3 || line.LeftOut.Met != 1 {
		t.Errorf("without a horizon: %d questions, %+v", line.Questions[1], line.LeftOut)
	}
}

// Only events of the type that is meant are questions; all are in the profile.
func TestTargetsOfOneType(t *testing.T) {
	t.Parallel()
	line, result := answerDiary(t, diary(
		of(1, 1, hour, profile.ProductView), of(1, 2, 2*hour, profile.ProductView),
		of(1, 3, 3*hour, profile.ProductPurchase), of(1, 4, 4*hour, profile.ProductView),
	), eval.Options{WarmUp: 0.4, Targets: profile.ProductPurchase}, eval.Plan{})
	if line.Questions[1] != 1 || line.LeftOut.OtherType == 0 || result.InGroup[len(eval.Groups())-1] != 1 {
		t.Errorf("%d questions, left out %+v, in groups %v", line.Questions[1], line.LeftOut, result.InGroup)
	}
}

// Events of types that tell against a product are no questions.
func TestTypesAgainstAProductAskNothing(t *testing.T) {
	t.Parallel()
	events := diary(
		of(1, 1, hour, profile.ProductView), of(1, 2, 2*hour, profile.ProductView), of(2, 3, 2*hour, profile.ProductView),
		of(1, 3, 3*hour, profile.ProductClick),
	)
	all, _ := answerDiary(t, events, eval.Options{WarmUp: 0.5}, eval.Plan{})
	line, _ := answerDiary(t, events, eval.Options{WarmUp: 0.5, Against: []profile.EventType{profile.ProductClick}}, eval.Plan{})
	if line.Questions[1] != all.Questions[1]-1 || line.LeftOut.OtherType != all.LeftOut.OtherType+1 {
		t.Errorf("%d of %d questions, left out %+v", line.Questions[1], all.Questions[1], line.LeftOut)
	}
}

// The groups of each kind have all questions, and their means make the row's.
func TestGroupsAddUp(t *testing.T) {
	t.Parallel()
	_, result := faithful(t).run(600, eval.Age(0), eval.Options{}, setting("30d", 30))
	row := result.Row("30d")
	questions, hits := map[string]int{}, map[string]float64{}
	for i, g := range eval.Groups() {
		questions[g.By] += result.InGroup[i]
		hits[g.By] += row.Groups[i] * float64(result.InGroup[i])
	}
	for by, n := range questions {
		if n != result.Questions[1] || math.Abs(hits[by]/float64(n)-row.Test.HR) > 1e-9 {
			t.Errorf("by %s: %d questions of %d, HR %v of %v", by, n, result.Questions[1], hits[by]/float64(n), row.Test.HR)
		}
	}
}

// A blend that is nearly all popularity ranks as popularity does, one with none of it as the
// profile.
func TestBlendsLieBetweenProfileAndPopularity(t *testing.T) {
	t.Parallel()
	p := bestsellers(t, 200)
	line, err := eval.New(slices.Clone(p.events), func(int32) bool { return true }, eval.Options{WarmUp: 0.5})
	must.OK(t, err)
	vectors := make([][]float32, len(line.Things))
	for i, thing := range line.Things {
		vectors[i] = []float32{float32(thing.Product), 1}
	}
	result := run(t, line, eval.Plan{
		Space: similar.NewSparse(vectors, 2, line.Candidates), Visibility: eval.Age(0), Baselines: true, Coverage: true, Settings: []eval.Setting{setting("30d", 30)},
		Blends: []eval.Blend{{Name: "popular", Popularity: 1e6}, {Name: "profile"}},
	})
	for name, like := range map[string]string{"popular": eval.Popularity, "profile": "30d"} {
		if got, want := result.Row(name).Test, result.Row(like).Test; math.Abs(got.MRR-want.MRR) > 1e-3 {
			t.Errorf("the blend %s: %+v, want %+v", name, got, want)
		}
	}
	// Popularity has the same few first, whoever asks; of 200 candidates no row has all.
	if popular := result.Row(eval.WarmUpPopularity).Coverage; popular < 3./200 || popular > 0.5 {
		t.Errorf("popularity covers %v", popular)
	}
}

// An interval holds the row's own ratio; a row differs from itself by nothing, and from a
// worse one in every draw.
func TestIntervals(t *testing.T) {
	t.Parallel()
	_, result := faithful(t).run(600, eval.Age(0), eval.Options{}, setting("30d", 30))
	for i, interval := range result.Intervals(result, eval.Random) {
		row := &result.Rows[i]
		if hr := row.Test.HR; interval.HR.Low > hr || interval.HR.High < hr || interval.HR.High-interval.HR.Low > 0.1 {
			t.Errorf("%s: %v in %+v", row.Name, hr, interval.HR)
		}
		switch d := interval.Difference; {
		case row.Name == eval.Random && d != eval.Interval{}:
			t.Errorf("chance differs from itself by %+v", d)
		case row.Name == "30d" && d.Low <= 0:
			t.Errorf("the profile finds no more than chance: %+v", d)
		}
	}
	if all := result.Intervals(result, "absent"); all[0].HR != (eval.Interval{}) {
		t.Errorf("against no row: %+v", all)
	}
}

// What goes by lengths is refused in a space without vectors.
func TestLengthsNeedVectors(t *testing.T) {
	t.Parallel()
	line, err := eval.New(diary(of(1, 1, hour, profile.ProductView)), func(int32) bool { return true }, eval.Options{WarmUp: 0.5})
	must.OK(t, err)
	unit := setting("30d", 30)
	unit.History = profile.UnitMass
	_, err = line.Run(t.Context(), eval.Plan{Space: similar.NewNeighbours(line.Sessions(), line.Candidates), Visibility: eval.Age(0), Settings: []eval.Setting{unit}})
	if err == nil {
		t.Error("no error")
	}
}
