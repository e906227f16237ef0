package answers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/evaluation"
	"keyfold/service/profile/recommend"
	"keyfold/sink/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	second = engine.Millis(1000)
	minute = 60 * second
	start  = engine.Millis(1_700_000_000_000)
)

// silent has no phrases.
type silent struct{}

func (silent) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	all := make([]engine.Resolved, len(phrases))
	for i := range all {
		all[i].Err = engine.PermanentError("none", errors.New("no phrases here"))
	}
	return all
}

// newInput is a log of a catalogue whose vectors are given.
func newInput(vectors map[int32][]float32, dimensions int) *Input {
	in := &Input{Products: map[int32]profile.Product{}, Phrases: silent{}, Vectors: "given", Laws: processor.DefaultConfig(), Store: memory.New(dimensions)}
	in.Laws.Dimensions, in.Laws.Model = dimensions, "m"
	for id, v := range vectors {
		in.Products[id] = profile.Product{ID: id, Name: fmt.Sprint("product ", id), Vector: v, Model: "m"}
	}
	return in
}

func (in *Input) add(user int32, at engine.Millis, kind profile.EventType, product int32) {
	e := profile.Event{UserID: user, OccurredAt: at, Type: kind, ProductID: product, MessageID: fmt.Sprintf("%08d", len(in.Events))}
	e.Digest = profile.DigestOf(e.MessageID)
	in.Events = append(in.Events, e)
}

func options(k int, asks ...string) Options {
	return Options{WarmUp: 0.5, Age: 15 * time.Second, K: k, Asks: asks}
}

// faithful is a shop of so many topics of five products each, whose users go through the products
// of one topic: of five places a profile fills four with what the user turns to next.
func faithful(topics int) *Input {
	vectors := map[int32][]float32{}
	for id := range int32(5 * topics) {
		v := make([]float32, topics)
		v[int(id)%topics] = 1
		vectors[id+1] = v
	}
	in := newInput(vectors, topics)
	random := rand.New(rand.NewPCG(1, 1))
	for user := range int32(20 * topics) {
		at := start + engine.Millis(user)*10*minute
		for i, nth := range random.Perm(5) {
			in.add(user+1, at+engine.Millis(i)*minute, profile.ProductView, user%int32(topics)+1+int32(nth*topics))
		}
	}
	return in
}

// Where it is known what is asked for, it is found: each next product is among the four that are
// left of the user's topic. Popularity and chance find what they must.
func TestFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	const topics = 6
	r, err := Evaluate(t.Context(), *faithful(topics), options(4, ""))
	must.OK(t, err)
	row, popular, random := r.Row("endpoint"), r.Row(eval.Popularity), r.Row(eval.Random)
	if row.HR != 1 || row.Coverage != 1 || row.NDCG < 0.6 || row.MRR < 0.5 || r.Questions < 4*20*topics/3 {
		t.Errorf("%d questions: %+v", r.Questions, row)
	}
	if popular.HR > 0.4 || math.Abs(random.HR-4./(5*topics-2)) > 0.02 {
		t.Errorf("popularity %+v, chance %+v", popular, random)
	}
	if e := row.Endpoint; e.ByPopularity != 0 || e.ByProfile != r.Questions || e.Compared != r.Questions || e.Differ != 0 || e.P50 <= 0 || e.P99 < e.P50 {
		t.Errorf("%+v", e)
	}
	for _, c := range r.Comparisons {
		want := NotDifferent // item kNN and the last event know the topic, too
		if c.Baseline == eval.Popularity {
			want = Better
		}
		if c.Verdict != want {
			t.Errorf("%+v", c)
		}
	}
}

// tastes is a shop of vectors without ties. Each user has met a product long before the first
// question, so that all questions are of users with profiles.
func tastes() *Input {
	const dimensions = 16
	random := rand.New(rand.NewPCG(2, 1))
	vectors := map[int32][]float32{}
	for id := range int32(150) {
		v := make([]float32, dimensions)
		for i := range v {
			v[i] = float32(random.NormFloat64())
		}
		vectors[id+1] = v
	}
	in := newInput(vectors, dimensions)
	for n := range int32(150) {
		in.add(1+n%40, start+engine.Millis(n), profile.ProductView, n+1)
	}
	for n := range 1200 {
		in.add(1+random.Int32N(40), start+engine.Millis(n+10)*minute+engine.Millis(random.IntN(100_000)), profile.EventTypes()[1+random.IntN(3)], 1+random.Int32N(150))
	}
	return in
}

// What the endpoint answers is what an evaluation computes for the same setting on the same
// questions: each answer has the product that is asked for at the same place, and as many are
// found.
//
// Promise(recommend/measured): What the recommendations endpoint finds in a log equals what `eval` computes for the same settings and questions.
func TestEqualsAnEvaluation(t *testing.T) {
	t.Parallel()
	in := tastes()
	in.Laws.ShortHalfLife = time.Minute
	events := slices.Clone(in.Events)
	r, err := Evaluate(t.Context(), *in, options(10, "", "mix=0", "mix=0.7", "mix=1", "mix=0.5&diversity=0.5"))
	must.OK(t, err)
	want, err := evaluation.Evaluate(t.Context(), evaluation.Input{
		Events: events, Products: in.Products, Laws: in.Laws.Config,
		Vectors: func(ctx context.Context, things []eval.Thing) ([][]float32, error) { return in.vectors(ctx, things) },
	}, evaluation.Options{
		Options: eval.Options{WarmUp: 0.5}, Age: 15 * time.Second, Cutoff: 10, Mixes: []float64{0.5, 0.7},
		HalfLives: []evaluation.HalfLife{{Name: "last"}, {Name: "1m", Days: 1. / 1440}, {Name: "1d", Days: 1}},
	})
	must.OK(t, err)
	for name, like := range map[string]string{
		"endpoint": "0.5 x 1m + 0.5 x 30.1d", "endpoint mix=0": "30.1d", "endpoint mix=0.7": "0.7 x 1m + 0.3 x 30.1d", "endpoint mix=1": "1m",
		LastEvent: "last", eval.Popularity: eval.Popularity, LastKNN: LastKNN, LongKNN: "item kNN, 30.1d",
	} {
		row, other := r.Row(name), want.Row(like)
		if math.Abs(row.HR-other.Test.HR) > 1e-9 || math.Abs(row.NDCG-other.Test.NDCG) > 1e-9 || row.HR == 0 {
			t.Errorf("%s: %+v, want %+v of %s", name, row, other.Test, like)
		}
		if e := row.Endpoint; e != nil && (e.Compared != r.Questions || e.Differ != 0 || e.ByProfile != r.Questions) {
			t.Errorf("%s: %+v of %d questions", name, e, r.Questions)
		}
	}
	if e := r.Row("endpoint mix=0.5&diversity=0.5").Endpoint; e.Compared != 0 {
		t.Errorf("no evaluation spreads answers: %+v", e)
	}
}

// Nothing of the future is in an answer: where two logs differ only from an instant on, all
// earlier questions are answered alike, with popularity, too.
func TestNothingOfTheFuture(t *testing.T) {
	t.Parallel()
	one, other := tastes(), tastes()
	from := start + 900*minute
	random := rand.New(rand.NewPCG(9, 9))
	for i := range other.Events {
		if e := &other.Events[i]; e.OccurredAt >= from {
			e.ProductID, e.UserID = 1+random.Int32N(150), 1+random.Int32N(40)
		}
	}
	shown := func(in *Input) map[eval.Question][][]int32 {
		o := options(10, "", "popularity=0.5")
		line, err := in.timeline(o)
		must.OK(t, err)
		answered, err := answerAll(t.Context(), in, line, o)
		must.OK(t, err)
		all := map[eval.Question][][]int32{}
		for n, q := range line.Asked() {
			if q.Product = 0; q.At < from { // whatever is turned to then
				all[q] = [][]int32{answered[0].shown[n], answered[1].shown[n]}
			}
		}
		return all
	}
	first, second := shown(one), shown(other)
	if len(first) < 100 || len(first) != len(second) {
		t.Fatalf("%d and %d questions", len(first), len(second))
	}
	for q, lists := range first {
		if !slices.EqualFunc(lists, second[q], slices.Equal) {
			t.Errorf("%+v: %v and %v", q, lists, second[q])
		}
	}
}

// ask answers one question of a user and returns the products.
func (r *replay) ask(t *testing.T, user int32, at engine.Millis) []int32 {
	t.Helper()
	must.OK(t, r.put(t.Context(), question{eval.Question{User: user, At: at}, 0}))
	return r.endpoints[0].shown[0]
}

// newTestReplay replays a log of three users in a shop of six products.
func newTestReplay(t *testing.T) (*replay, *Input) {
	in := newInput(map[int32][]float32{1: {1, 0}, 2: {0.9, 0.1}, 3: {0.8, 0.2}, 4: {0, 1}, 5: {0.1, 0.9}, 6: {0.2, 0.8}}, 2)
	in.add(1, start, profile.ProductView, 1)
	for _, product := range []int32{4, 5, 6, 4, 5, 4} {
		in.add(2, start, profile.ProductView, product)
	}
	in.add(3, start, profile.ProductView, 2)
	in.add(3, start, profile.ProductView, 3)
	in.add(1, start+15*second, profile.ProductView, 4)
	in.add(2, start+minute, profile.ProductView, 1)
	o := options(3, "")
	o.WarmUp = 0.9
	line, err := in.timeline(o)
	must.OK(t, err)
	r, err := newReplay(in, line, []question{{eval.Question{User: 1}, 0}, {eval.Question{User: 2}, 0}}, o)
	must.OK(t, err)
	t.Cleanup(func() { r.close() })
	return r, in
}

// A profile has an event from its age on and not a millisecond sooner; what was met is left out
// from the instant after it on.
func TestEventsCountFromTheirAgeOn(t *testing.T) {
	t.Parallel()
	r, in := newTestReplay(t)
	for _, test := range []struct {
		at      engine.Millis
		basis   string
		version int32
		shown   []int32
	}{
		{start, recommend.ByPopularity, 0, []int32{}},
		{start + 1, recommend.ByPopularity, 0, []int32{4, 5, 2}},
		{start + 15*second - 1, recommend.ByPopularity, 0, []int32{4, 5, 2}},
		{start + 15*second, recommend.ByProfile, 1, []int32{2, 3, 6}},
		{start + 30*second - 1, recommend.ByProfile, 1, []int32{2, 3, 6}},
		{start + 30*second, recommend.ByProfile, 2, []int32{6, 3, 5}},
	} {
		before := r.endpoints[0].byBasis[test.basis]
		shown := r.ask(t, 1, test.at)
		if r.endpoints[0].byBasis[test.basis] != before+1 || !slices.Equal(shown, test.shown) {
			t.Errorf("at %+d ms: %v by %v, want %v by %s", test.at-start, shown, r.endpoints[0].byBasis, test.shown, test.basis)
		}
		all, err := in.Store.Load(t.Context(), []int32{1})
		if err != nil || (all[0] == nil) != (test.version == 0) || all[0] != nil && all[0].Version != test.version {
			t.Errorf("at %+d ms: %+v, %v", test.at-start, all[0], err)
		}
	}
}

// An erased user gets nothing of the profile, and no later event makes a new one.
func TestErasedUsersGetNothingOfTheirProfile(t *testing.T) {
	t.Parallel()
	r, in := newTestReplay(t)
	if shown := r.ask(t, 1, start+15*second); !slices.Equal(shown, []int32{2, 3, 6}) {
		t.Fatal(shown)
	}
	must.OK(t, in.Store.(*memory.Profiles).Forget(t.Context(), 1, start+16*second))
	for _, at := range []engine.Millis{start + 20*second, start + minute} {
		before := r.endpoints[0].byBasis[recommend.ByPopularity]
		if shown := r.ask(t, 1, at); r.endpoints[0].byBasis[recommend.ByPopularity] != before+1 || !slices.Equal(shown, []int32{4, 5, 1}) {
			t.Errorf("at %+d ms: %v by %v", at-start, shown, r.endpoints[0].byBasis)
		}
	}
}

// Popularity is of the last seven days before the newest event, and each event has happened
// once.
func TestHistoryForgetsWhatIsOld(t *testing.T) {
	t.Parallel()
	in := newInput(nil, 2)
	const day = 24 * 60 * minute
	in.add(1, start, profile.ProductView, 1)
	in.add(1, start+minute, profile.ProductPurchase, 2)
	in.add(2, start+7*day, profile.ProductView, 2)
	in.add(2, start+8*day, profile.Search, 0)
	h := newHistory(in.Events)
	for _, test := range []struct {
		at   engine.Millis
		want map[int32]int64
	}{
		{start, nil},
		{start + 1, map[int32]int64{1: 1}},
		{start + 2*minute, map[int32]int64{1: 1, 2: 1}},
		{start + 7*day + 1, map[int32]int64{2: 2}},
		{start + 9*day, map[int32]int64{2: 1}},
	} {
		h.advance(test.at)
		got, err := h.Counts(t.Context(), 7)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("at %+d: %v, %v, want %v", test.at-start, got, err, test.want)
		}
	}
	bought, _ := h.Products(t.Context(), 1, true)
	seen, _ := h.Products(t.Context(), 1, false)
	if !slices.Equal(bought, []int32{2}) || !slices.Equal(seen, []int32{1, 2}) {
		t.Errorf("bought %v, seen %v", bought, seen)
	}
}

// Too long a log is asked of fewer users, of all its candidates; a share that is named is kept.
func TestAsksFewerUsersForTheTime(t *testing.T) {
	t.Parallel()
	in := faithful(6)
	line, err := in.timeline(options(4, ""))
	if err != nil || line.Share != 1 {
		t.Fatal(err, line.Share)
	}
	if share := affordable(line, 2000, 1_000_000); !(share > 0 && share < 1) {
		t.Errorf("the share is %v", share)
	}
	in = faithful(6)
	in.Laws.Dimensions = 100_000_000
	line, err = in.timeline(options(4, ""))
	if err != nil || line.Share >= 1 || line.Candidates != 30 {
		t.Errorf("%v, %+v", err, line)
	}
}

// Faults are named, those of requests by what the API says of them.
func TestFaults(t *testing.T) {
	t.Parallel()
	o := options(0, "k=3", "mix=%zz")
	o.Age, o.WarmUp = -1, 2
	err := o.Validate()
	for _, want := range []string{"k is 0", "the age is", `the parameters "k=3"`, `the parameters "mix=%zz"`, "the warm-up is 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	for ask, want := range map[string]string{"mixed=1": "mixed", "mix=0.5": "mix_unavailable", "popularity=7": "popularity is 7"} {
		if _, err := Evaluate(t.Context(), *faithful(6), options(4, ask)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ask, err, want)
		}
	}
	in := newInput(map[int32][]float32{1: {1, 0}}, 2)
	in.add(1, start, profile.ProductView, 1)
	if _, err := Evaluate(t.Context(), *in, options(4, "")); err == nil || !strings.Contains(err.Error(), "the log asks nothing") {
		t.Errorf("nothing to ask: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Evaluate(stopped, *faithful(6), options(4, "")); err == nil {
		t.Error("it went on though it was stopped")
	}
}
