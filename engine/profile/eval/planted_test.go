package eval_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog/similar"
)

// planted is a log in which it is known what finds what comes next.
type planted struct {
	t      *testing.T
	random *rand.Rand
	events []profile.Event
	topics int // product p has the topic p % topics, and its vector
}

func plant(t *testing.T, topics int) *planted {
	return &planted{t: t, random: rand.New(rand.NewPCG(5, 0)), topics: topics}
}

func (p *planted) add(user int32, at int64, product int32) {
	e := profile.Event{UserID: user, OccurredAt: engine.Millis(at), Type: profile.ProductView, ProductID: product, MessageID: fmt.Sprintf("%08d", len(p.events))}
	e.Digest = profile.DigestOf(e.MessageID)
	p.events = append(p.events, e)
}

// of returns a random product of a topic.
func (p *planted) of(topic, products int) int32 {
	return int32(1 + topic + p.topics*p.random.IntN(products/p.topics-1))
}

func (p *planted) run(products int, visible eval.Visibility, o eval.Options, settings ...eval.Setting) (*eval.Timeline, *eval.Result) {
	p.t.Helper()
	if o.WarmUp == 0 {
		o.WarmUp = 0.5
	}
	line, err := eval.New(slices.Clone(p.events), func(int32) bool { return true }, o)
	must.OK(p.t, err)
	var vectors [][]float32
	for _, thing := range line.Things {
		v := make([]float32, p.topics)
		v[(int(thing.Product)-1)%p.topics] = 1
		vectors = append(vectors, v)
	}
	result, err := line.Run(p.t.Context(), eval.Plan{
		Space: similar.NewDense(vectors, p.topics, line.Candidates), Visibility: visible, Settings: settings, Baselines: true, Cutoff: 10, Check: 20,
	})
	must.OK(p.t, err)
	return line, result
}

func setting(name string, days float64) eval.Setting {
	return eval.Setting{Name: name, Lambda: eval.Lambda(days), History: profile.Mass, Weights: profile.DefaultWeights()}
}

// Users whose next topic is drawn from their topics decayed by 2 days are found best by a
// half-life of 2 days.
func TestFindsThePlantedHalfLife(t *testing.T) {
	t.Parallel()
	const products, topics = 4000, 12
	p := plant(t, topics)
	for user := range int32(300) {
		interest := make([]float64, topics)
		at := int64(1_700_000_000_000) + p.random.Int64N(day)
		for range 60 {
			// Gaps of an hour to four days, so that decay and count disagree.
			gap := int64(float64(hour) * math.Exp(p.random.Float64()*math.Log(96)))
			at += gap
			best, most := p.random.IntN(topics), 0.0
			for i := range interest {
				interest[i] *= math.Exp2(-float64(gap) / (2 * day))
				if p.random.IntN(5) > 0 && interest[i] > most {
					best, most = i, interest[i]
				}
			}
			if p.random.IntN(4) == 0 {
				best = p.random.IntN(topics)
			}
			interest[best]++
			p.add(user+1, at, p.of(best, products))
		}
	}
	_, result := p.run(products, eval.Age(0), eval.Options{}, setting("1h", 1./24), setting("2d", 2), setting("30d", 30), setting("never", math.Inf(1)))
	best := result.Row("2d").Test
	for _, name := range []string{"1h", "30d", "never"} {
		if other := result.Row(name).Test; other.MRR >= best.MRR {
			t.Errorf("half-life %s: MRR %.4f, the planted 2d: %.4f", name, other.MRR, best.MRR)
		}
	}
}

// bestsellers is a world without tastes: everybody turns to what is popular.
func bestsellers(t *testing.T, products int) *planted {
	p := plant(t, 4)
	at := int64(1_700_000_000_000)
	for range 6000 {
		at += 5 * minute
		p.add(1+p.random.Int32N(400), at, int32(1+int(float64(products-1)*math.Pow(p.random.Float64(), 4))))
	}
	return p
}

// Where there is no taste, and where histories are shuffled, a profile finds no more than
// popularity does.
func TestPopularityBeatsAProfileWithoutTaste(t *testing.T) {
	t.Parallel()
	_, result := bestsellers(t, 200).run(200, eval.Age(0), eval.Options{}, setting("30d", 30))
	profile, popular := result.Row("30d").Test.HR, result.Row(eval.Popularity).Test.HR
	if profile >= popular/2 {
		t.Errorf("the profile finds %.4f, popularity %.4f", profile, popular)
	}
}

// faithful is a world in which each user has one topic.
func faithful(t *testing.T) *planted {
	p := plant(t, 10)
	at := int64(1_700_000_000_000)
	for range 8000 {
		at += minute
		user := 1 + p.random.Int32N(300)
		p.add(user, at, p.of(int(user)%10, 600))
	}
	return p
}

func TestControlEndsWhatAProfileFinds(t *testing.T) {
	t.Parallel()
	_, real := faithful(t).run(600, eval.Age(0), eval.Options{}, setting("30d", 30))
	_, control := faithful(t).run(600, eval.Age(0), eval.Options{Control: true}, setting("30d", 30))
	if found, chance := real.Row("30d").Test.HR, real.Row(eval.Random).Test.HR; found < 5*chance {
		t.Errorf("a taste that is there: %.4f, chance %.4f", found, chance)
	}
	if found, chance := control.Row("30d").Test.HR, control.Row(eval.Random).Test.HR; found > 1.5*chance {
		t.Errorf("shuffled users: the profile finds %.4f, chance is %.4f", found, chance)
	}
}

// telling is a world in which each question is preceded, by exactly so long, by an event of
// the topic that is asked for, and nothing else says anything.
func telling(t *testing.T, before int64) *planted {
	p := plant(t, 50)
	at := int64(1_700_000_000_000)
	for i := range 3000 {
		at += hour
		user, topic := int32(1+i%500), p.random.IntN(50)
		p.add(user, at-before, p.of(topic, 1000))
		p.add(user, at, p.of(topic, 1000))
	}
	return p
}

// A profile never knows what happened at the instant of the question, nor what is younger
// than its age: a millisecond decides.
func TestNothingIsKnownTooEarly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		before  int64
		visible eval.Visibility
		knows   bool
	}{
		{"the same instant", 0, eval.Age(0), false},
		{"a millisecond before", 1, eval.Age(0), true},
		{"a millisecond too young", 15*second - 1, eval.Age(15 * second), false},
		{"just old enough", 15 * second, eval.Age(15 * second), true},
		{"a window that is open", 5*second - 1, eval.Windows{Gap: 5 * second, Most: 15 * second}, false},
		{"a window that is written", 10 * second, eval.Windows{Gap: 5 * second, Most: 15 * second}, true},
		{"the same night", minute, eval.Nightly{}, false},
		{"the night before", day, eval.Nightly{}, true},
	} {
		_, result := telling(t, test.before).run(1000, test.visible, eval.Options{}, setting("last", 1e-9))
		// Half of the questions are the second events; those tell of themselves only if
		// something leaks.
		found, chance := result.Row("last").Test.HR, result.Row(eval.Random).Test.HR
		if knows := found > 6*chance; knows != test.knows {
			t.Errorf("%s: finds %.4f, chance is %.4f", test.name, found, chance)
		}
	}
}

// Where all products are alike, each place is as likely: a metric is chance's, never 1.
func TestTiesShareTheirPlaces(t *testing.T) {
	t.Parallel()
	p := faithful(t)
	p.topics = 1
	_, result := p.run(600, eval.Age(0), eval.Options{}, setting("30d", 30))
	got, want := result.Row("30d").Test, result.Row(eval.Random).Test
	// Those without a profile are answered by popularity.
	if math.Abs(got.HR-want.HR) > 0.01 || math.Abs(got.MRR-want.MRR) > 0.01 {
		t.Errorf("all alike: %+v, chance %+v", got, want)
	}
}

// Popularity knows whole days before the question's, not the question's own.
func TestPopularityDoesNotPeek(t *testing.T) {
	t.Parallel()
	p := plant(t, 2)
	start := int64(1_700_006_400_000) / day * day
	for product := range int32(40) { // the warm-up: all products are alike
		for user := range int32(40) {
			p.add(user+1, start+int64(user)*minute+int64(product), product+1)
		}
	}
	for user := range int32(400) { // on one day all turn to product 7, after another one
		p.add(1000+user, start+3*day+int64(user)*minute, 1+user%5)
		p.add(1000+user, start+3*day+int64(user)*minute+second, 7)
	}
	_, result := p.run(40, eval.Age(0), eval.Options{WarmUp: 0.6}, setting("30d", 30))
	if popular, chance := result.Row(eval.Popularity).Test.HR, result.Row(eval.Random).Test.HR; math.Abs(popular-chance) > 0.02 {
		t.Errorf("popularity finds %.4f of what became popular on the same day, chance is %.4f", popular, chance)
	}
}

// One product, one user, nothing but first events: nothing divides by zero.
func TestSmallestLogs(t *testing.T) {
	t.Parallel()
	for events := range 4 {
		p := plant(t, 1)
		for i := range events {
			p.add(1, 1_700_000_000_000+int64(i)*second, 1)
		}
		line, err := eval.New(slices.Clone(p.events), func(int32) bool { return true }, eval.Options{WarmUp: 0.5})
		if (err != nil) != (events == 0) {
			t.Fatalf("%d events: %v", events, err)
		}
		if err != nil {
			continue
		}
		vectors := make([][]float32, len(line.Things))
		result, err := line.Run(t.Context(), eval.Plan{
			Space: similar.NewDense(vectors, 1, line.Candidates), Visibility: eval.Age(0), Settings: []eval.Setting{setting("1d", 1)}, Baselines: true, Coverage: true, Cutoff: 10,
		})
		if err != nil || result.Questions != [2]int{} || math.IsNaN(result.Rows[0].Test.HR) {
			t.Errorf("%d events: %+v, %v", events, result, err)
		}
	}
}

// Equal input gives equal figures, to the last bit.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	_, first := faithful(t).run(600, eval.Age(15*second), eval.Options{}, setting("1m", 1./1440), setting("30d", 30))
	_, second := faithful(t).run(600, eval.Age(15*second), eval.Options{}, setting("1m", 1./1440), setting("30d", 30))
	for i := range first.Rows {
		if first.Rows[i].Test != second.Rows[i].Test {
			t.Errorf("%s: %+v, then %+v", first.Rows[i].Name, first.Rows[i].Test, second.Rows[i].Test)
		}
	}
	a, b := first.Intervals(first, "30d"), second.Intervals(second, "30d")
	if !slices.Equal(a, b) || a[3].Difference.Low > a[3].Difference.High {
		t.Errorf("intervals %v, then %v", a, b)
	}
}
