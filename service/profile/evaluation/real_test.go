package evaluation_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/proof/oracle"
	"keyfold/service/profile/evaluation"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// On real logs, where there are some (folders below KEYFOLD_TEST_DATA), an evaluation by
// hashed names equals the slow way within 1e-9, for a sample of the users.
func TestRealLogsEqualTheSlowWay(t *testing.T) {
	if os.Getenv("KEYFOLD_TEST_DATA") == "" {
		return // generated worlds are compared in engine/profile/eval
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("KEYFOLD_TEST_DATA"), "*", "events.ndjson.gz"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no log below KEYFOLD_TEST_DATA")
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			equalsTheSlowWay(t, file)
		})
	}
}

// sizes returns the vectors' length and the share of the users that are asked: those of
// some 25 users with short vectors, as the slow way is slow, in the soak all.
func sizes(in *evaluation.Input) (dimensions int, sampled float64) {
	if os.Getenv("KEYFOLD_SOAK") != "" {
		return profile.DefaultConfig().Dimensions, 1
	}
	users := map[int32]bool{}
	for i := range in.Events {
		users[in.Events[i].UserID] = true
	}
	return 128, 25 / float64(len(users))
}

func equalsTheSlowWay(t *testing.T, file string) {
	in := readLog(t, file)
	dimensions, sampled := sizes(in)
	in.Laws.Dimensions = dimensions
	events := append([]profile.Event(nil), in.Events...)
	report, err := evaluation.Evaluate(t.Context(), *in, evaluation.Options{
		Options: eval.Options{WarmUp: 0.6, Users: sampled}, Age: 15 * time.Second, Cutoff: 10,
		HalfLives: []evaluation.HalfLife{{Name: "last"}, {Name: "1m", Days: 1. / 1440}, {Name: "never", Days: math.Inf(1)}}, Mixes: []float64{0.5},
	})
	must.OK(t, err)
	hash, err := vector.NewHash(dimensions)
	must.OK(t, err)
	vectors := map[eval.Thing][]float32{}
	slow := oracle.NextItem{
		Events: events, WarmUp: 0.6, Cutoff: 10,
		Known:   func(id int32) bool { return in.Products[id].ID != 0 },
		Asked:   func(user int32) bool { return float64(uint32(user)*2654435769)/4294967296 < sampled },
		Visible: func(times []int64, i int, now int64) bool { return now-times[i] >= 15_000 },
		Vector: func(product int32, phrase string) []float32 {
			thing := eval.Thing{Product: product, Phrase: phrase}
			if vectors[thing] == nil {
				text := vector.Normal(phrase, false)
				if product != 0 {
					text = catalog.EmbedText(in.Products[product])
				}
				made, err := hash.Embed(context.Background(), []string{text})
				if err != nil {
					t.Error(err)
				}
				vectors[thing] = made[0]
			}
			return vectors[thing]
		},
	}
	decay := func(days float64) func([]oracle.Weighted) []float64 {
		return func(events []oracle.Weighted) []float64 { return oracle.Unit(oracle.Sum(events, oracle.Weight, days)) }
	}
	month := math.Ln2 / 0.023
	for name, profileOf := range map[string]func([]oracle.Weighted) []float64{
		"last": decay(0), "1m": decay(1. / 1440), "30.1d": decay(month), "never": decay(math.Inf(1)),
		"0.5 x 1m + 0.5 x 30.1d": func(events []oracle.Weighted) []float64 {
			both := decay(1. / 1440)(events)
			floats.Add(both, decay(month)(events))
			floats.Scale(0.5, both) // equal scores differ by less than 1e-9 of this
			return both
		},
	} {
		slow.Score = func(events []oracle.Weighted) func([]float64) float64 {
			of := profileOf(events)
			return func(candidate []float64) float64 { return floats.Dot(of, candidate) }
		}
		want, row := slow.Answer(), report.Row(name)
		if row == nil || report.Questions != want.Questions || report.Users != want.Users || want.Questions < 5 {
			t.Fatalf("%s: %+v, %d questions of %d users; want %+v", name, row, report.Questions, report.Users, want)
		}
		got := row.Test
		for _, pair := range [][2]float64{{got.HR, want.HR}, {got.NDCG, want.NDCG}, {got.MRR, want.MRR}, {got.HR100, want.HR100}, {got.HROfUsers, want.OfUsers}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: %+v, want %+v", name, got, want)
				break
			}
		}
	}
}

func readLog(t *testing.T, file string) *evaluation.Input {
	t.Helper()
	in := &evaluation.Input{Products: map[int32]profile.Product{}, Sparse: true, Laws: profile.DefaultConfig(), Model: vector.HashModel}
	products := open(t, filepath.Join(filepath.Dir(file), "products.ndjson.gz"))
	for p, err := range catalog.ReadProducts(products.Lines) {
		must.OK(t, err)
		in.Products[p.ID] = p
	}
	log := open(t, file)
	for body, err := log.Next(); err == nil; body, err = log.Next() {
		if e, err := profile.ParseEvent(body, time.Now()); err == nil {
			in.Events = append(in.Events, e)
		}
	}
	in.Vectors = func(ctx context.Context, things []eval.Thing) ([][]float32, error) {
		hash, err := vector.NewHash(in.Laws.Dimensions)
		if err != nil {
			return nil, err
		}
		var texts []string
		for _, thing := range things {
			text := vector.Normal(thing.Phrase, false)
			if thing.Product != 0 {
				text = catalog.EmbedText(in.Products[thing.Product])
			}
			texts = append(texts, text)
		}
		return hash.Embed(ctx, texts)
	}
	return in
}

func open(t *testing.T, path string) *cli.Input {
	t.Helper()
	in, err := cli.OpenInput(path, nil)
	must.OK(t, err)
	t.Cleanup(func() { in.Close() })
	return in
}
