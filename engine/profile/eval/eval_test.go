package eval_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/testserver/must"
	"keyfold/proof/oracle"
	"keyfold/source/catalog/similar"
)

const (
	second = 1000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// world is a generated log with the vectors of its things.
type world struct {
	events     []profile.Event
	vectors    map[eval.Thing][]float32
	dimensions int
	known      func(int32) bool
	options    eval.Options
}

// newWorld makes a small log with what logs have: events of one instant, repeated ids, bursts
// and pauses of days, products without a vector or out of the catalogue, products that
// are alike.
func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{vectors: map[eval.Thing][]float32{}, dimensions: 4 + r.IntN(8), options: eval.Options{WarmUp: 0.4, Choose: 0.2, Repeats: r.IntN(3) == 0}}
	products := int32(4 + r.IntN(20))
	unknown := products/5 + 1
	w.known = func(p int32) bool { return p > unknown }
	vector := func() []float32 {
		v := make([]float32, w.dimensions)
		for i := range v {
			if r.IntN(2) == 0 {
				v[i] = float32(r.NormFloat64())
			}
		}
		return v
	}
	for p := int32(1); p <= products; p++ {
		switch r.IntN(10) {
		case 0: // none
		case 1, 2:
			w.vectors[eval.Thing{Product: p}] = w.vectors[eval.Thing{Product: max(1, p-1)}]
		default:
			w.vectors[eval.Thing{Product: p}] = vector()
		}
	}
	phrases := 1 + r.IntN(6)
	for i := range phrases {
		w.vectors[eval.Thing{Phrase: fmt.Sprint("phrase ", i)}] = vector()
	}
	at := engine.Millis(1_700_000_000_000 + r.Int64N(day))
	for i := range 60 + r.IntN(240) {
		at += engine.Millis([]int64{0, 0, 200, second, 7 * second, minute, hour, day}[r.IntN(8)])
		e := profile.Event{UserID: 1 + r.Int32N(7), OccurredAt: at, Type: profile.EventTypes()[r.IntN(len(profile.EventTypes()))], MessageID: fmt.Sprint(r.IntN(1000), "-", i)}
		if e.Type.HasPhrase() {
			e.Phrase = fmt.Sprint("phrase ", r.IntN(phrases))
		} else {
			e.ProductID = 1 + r.Int32N(products)
		}
		e.Digest = profile.DigestOf(e.MessageID)
		w.events = append(w.events, e)
		if r.IntN(20) == 0 {
			w.events = append(w.events, e)
		}
	}
	r.Shuffle(len(w.events), func(i, j int) { w.events[i], w.events[j] = w.events[j], w.events[i] })
	return w
}

func (w *world) timeline(t testing.TB) *eval.Timeline {
	t.Helper()
	line, err := eval.New(append([]profile.Event(nil), w.events...), w.known, w.options)
	must.OK(t, err)
	return line
}

// spaces has one kind of space in the first half of the worlds, the other in the rest.
func (w *world) spaces(line *eval.Timeline, seed uint64) map[string]eval.Space {
	vectors := func() (all [][]float32) {
		for _, thing := range line.Things {
			all = append(all, w.vectors[thing])
		}
		return all
	}
	if seed < 100 {
		return map[string]eval.Space{"dense": similar.NewDense(vectors(), w.dimensions, line.Candidates)}
	}
	return map[string]eval.Space{"sparse": similar.NewSparse(vectors(), w.dimensions, line.Candidates)}
}

func run(t testing.TB, line *eval.Timeline, plan eval.Plan) *eval.Result {
	t.Helper()
	plan.Cutoff = 3
	result, err := line.Run(t.Context(), plan)
	must.OK(t, err)
	return result
}

// halfLives are those of the tests' settings, in days.
var halfLives = map[string]float64{"last": 0, "1m": 1. / 1440, "1h": 1. / 24, "30d": 30, "never": math.Inf(1)}

func settings() (all []eval.Setting) {
	for _, name := range []string{"last", "1m", "1h", "30d", "never"} {
		all = append(all, eval.Setting{Name: name, Lambda: eval.Lambda(halfLives[name]), History: profile.Mass, Weights: profile.DefaultWeights()})
	}
	unit := all[2]
	unit.Name, unit.History = "unit 1h", profile.UnitMass
	return append(all, unit)
}

// slowScore returns the slow way's score of a row.
func slowScore(name string) func(events []oracle.Weighted) func([]float64) float64 {
	return func(events []oracle.Weighted) func([]float64) float64 {
		sum := make([]float64, len(events[0].Vector))
		switch name {
		case "unit 1h":
			for i, e := range events {
				keep := 0.0
				if i > 0 {
					keep = math.Exp2(-float64(e.At-events[i-1].At) / hour)
				}
				floats.Scale(keep, sum)
				floats.AddScaled(sum, oracle.Weight(e.Type), e.Vector)
				sum = oracle.Unit(sum)
			}
		case "mix":
			floats.AddScaled(sum, 0.3, oracle.Unit(oracle.Sum(events, oracle.Weight, halfLives["1m"])))
			floats.AddScaled(sum, 0.7, oracle.Unit(oracle.Sum(events, oracle.Weight, 30)))
		default:
			sum = oracle.Unit(oracle.Sum(events, oracle.Weight, halfLives[name]))
		}
		return func(candidate []float64) float64 { return floats.Dot(sum, candidate) }
	}
}

func ageOf(millis int64) func(times []int64, i int, now int64) bool {
	return func(times []int64, i int, now int64) bool { return times[i]+millis <= now }
}

// windowsOf says whether the window that holds event i is written by now.
func windowsOf(gap, most int64) func(times []int64, i int, now int64) bool {
	return func(times []int64, i int, now int64) bool {
		first, last := times[0], times[0]
		for j := range times {
			end := min(last+gap, first+most)
			if j == 0 || times[j] <= end {
				last = times[j]
				continue
			}
			if j > i {
				break
			}
			first, last = times[j], times[j]
		}
		return min(last+gap, first+most) <= now
	}
}

// The fast way equals the slow one on generated worlds: all metrics, with either kind of
// vectors, whatever makes events visible.
func TestEqualsTheSlowWay(t *testing.T) {
	t.Parallel()
	visibilities := []struct {
		eval eval.Visibility
		slow func(times []int64, i int, now int64) bool
	}{
		{eval.Age(0), ageOf(0)},
		{eval.Age(15 * second), ageOf(15 * second)},
		{eval.Windows{Gap: 5 * second, Most: 15 * second}, windowsOf(5*second, 15*second)},
		{eval.Nightly{}, func(times []int64, i int, now int64) bool { return times[i]/day < now/day }},
	}
	questions := 0
	for seed := range uint64(200) {
		w := newWorld(seed)
		line := w.timeline(t)
		visible := visibilities[seed%4]
		slow := oracle.NextItem{
			Events: w.events, Known: w.known, WarmUp: w.options.WarmUp, Choose: w.options.Choose, Repeats: w.options.Repeats, Cutoff: 3,
			Vector: func(product int32, phrase string) []float32 {
				return w.vectors[eval.Thing{Product: product, Phrase: phrase}]
			},
			Visible: visible.slow,
		}
		for name, space := range w.spaces(line, seed) {
			result := run(t, line, eval.Plan{
				Space: space, Visibility: visible.eval, Settings: settings(), Check: 50,
				Mixes: []eval.Mix{{Name: "mix", Short: 1, Long: 3, Share: 0.3}},
			})
			questions += result.Questions[1]
			for _, row := range result.Rows {
				slow.Score = slowScore(row.Name)
				want := slow.Answer()
				if result.Questions[1] != want.Questions || result.Users[1] != want.Users {
					t.Fatalf("world %d: %d questions of %d users, want %d of %d", seed, result.Questions[1], result.Users[1], want.Questions, want.Users)
				}
				if want.Questions == 0 {
					continue
				}
				got := row.Test
				for _, pair := range [][2]float64{{got.HR, want.HR}, {got.NDCG, want.NDCG}, {got.MRR, want.MRR}, {got.HR100, want.HR100}, {got.HROfUsers, want.OfUsers}} {
					if math.Abs(pair[0]-pair[1]) > 1e-9 {
						t.Fatalf("world %d, %s vectors, %s, %#v: got %+v\nwant %+v", seed, name, row.Name, visible.eval, got, want)
					}
				}
			}
		}
	}
	if questions < 3000 {
		t.Errorf("the worlds had %d questions", questions)
	}
}
