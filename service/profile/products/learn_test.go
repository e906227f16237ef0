package products

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// kept is a store that keeps what is put into it.
type kept map[int32]profile.Product

func (k kept) PutProducts(_ context.Context, products []profile.Product, _ engine.Millis) error {
	for _, p := range products {
		k[p.ID] = p
	}
	return nil
}

// sequence yields values, then an error where there is one.
func sequence[T any](err error, values ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

func learning() Learning {
	return Learning{
		TextModel: "text", TextDimensions: 2, Components: 3, Share: 0.5, Pause: 1000, Memory: 512 << 20,
		Progress: func(string, int, int) {},
	}
}

// visits are sessions of two products each, of one user each.
func visits(pairs ...[2]int32) (all []outbox.Interaction) {
	for i, pair := range pairs {
		for k, id := range pair {
			all = append(all, outbox.Interaction{UserID: int32(i + 1), ProductID: id, OccurredAt: engine.Millis(k)})
		}
	}
	return all
}

// ids are those of a catalogue.
func ids(all ...int32) (times []profile.ProductTime) {
	for _, id := range all {
		times = append(times, profile.ProductTime{ID: id})
	}
	return times
}

func learn(t *testing.T, l Learning, catalogue []profile.ProductTime, history ...outbox.Interaction) *Lesson {
	t.Helper()
	lesson, err := l.Learn(t.Context(), sequence(nil, catalogue...), sequence(nil, history...))
	must.OK(t, err)
	return lesson
}

// A product is written as it is when it is read: with the vector of its text of then, without a
// learned one where it is newer than the lesson, and with what it has where it lacks a part.
func TestProductsThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	lesson := learn(t, learning(), ids(3, 1, 2, 1), visits([2]int32{1, 2}, [2]int32{1, 2}, [2]int32{2, 9})...)
	if want := (Counts{Events: 5, Unknown: 1, Users: 3, Sessions: 2, Products: 3, Learned: 2}); lesson.Counts != want {
		t.Errorf("%+v, want %+v", lesson.Counts, want)
	}
	store := kept{}
	done, err := lesson.Write(t.Context(), sequence(nil,
		profile.Product{ID: 1, Name: "of now", Model: "text", Vector: []float32{3, 4}},
		profile.Product{ID: 2, Model: "another", Vector: []float32{3, 4}},
		profile.Product{ID: 3, Vector: []float32{1, 0}},
		profile.Product{ID: 4, Name: "new", Vector: []float32{0, 2}},
		profile.Product{ID: 5},
	), store)
	if want := (Written{Products: 5, Textless: 1, Cold: 2, Neither: 1}); err != nil || done != want {
		t.Errorf("%+v, %v, want %+v", done, err, want)
	}
	zeros := make([]float32, 5)
	for id, c := range map[int32]struct{ text, learned bool }{1: {true, true}, 2: {false, true}, 3: {true, false}, 4: {true, false}} {
		v := store[id].Vector
		if len(v) != 5 || slices.Equal(v[:2], zeros[:2]) == c.text || slices.Equal(v[2:], zeros[2:]) == c.learned {
			t.Errorf("product %d has %v", id, v)
		}
	}
	if len(store[5].Vector) != 0 || store[1].Name != "of now" || store[4].Model != lesson.Model() || lesson.Dimensions() != 5 {
		t.Errorf("%+v of %s", store, lesson.Model())
	}
}

// The name of a training is another one where anything is that decides whether vectors can be
// compared, and the same where nothing is.
func TestGeneration(t *testing.T) {
	t.Parallel()
	history, catalogue := visits([2]int32{1, 2}, [2]int32{2, 3}), ids(1, 2, 3)
	name := func(change func(*Learning), history ...outbox.Interaction) string {
		l := learning()
		change(&l)
		return learn(t, l, catalogue, history...).Setting().Generation
	}
	same := func(*Learning) {}
	met := map[string]string{}
	for what, generation := range map[string]string{
		"the same":   name(same, history...),
		"share":      name(func(l *Learning) { l.Share = 0.25 }, history...),
		"model":      name(func(l *Learning) { l.TextModel = "other" }, history...),
		"dimensions": name(func(l *Learning) { l.TextDimensions = 3 }, history...),
		"components": name(func(l *Learning) { l.Components = 4 }, history...),
		"history":    name(same, visits([2]int32{1, 2}, [2]int32{2, 3}, [2]int32{1, 2})...),
	} {
		if other, taken := met[generation]; taken {
			t.Errorf("%s and %s are both %s", what, other, generation)
		}
		met[generation] = what
	}
	if met[name(same, history...)] != "the same" {
		t.Error("the same history has another name")
	}
}

// What cannot be learned is said, and so is what the history or the catalogue has to say.
func TestNothingToLearn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	one := visits([2]int32{1, 2})
	for name, c := range map[string]struct {
		catalogue iter.Seq2[profile.ProductTime, error]
		history   iter.Seq2[outbox.Interaction, error]
		memory    int64
		says      string
	}{
		"no catalogue":     {sequence[profile.ProductTime](nil), sequence(nil, one...), 512 << 20, "nothing can be learned"},
		"no pair":          {sequence(nil, ids(1)...), sequence(nil, one...), 512 << 20, "nothing can be learned"},
		"broken catalogue": {sequence[profile.ProductTime](broken), sequence(nil, one...), 512 << 20, "broken"},
		"broken history":   {sequence(nil, ids(1, 2)...), sequence(broken, one...), 512 << 20, "broken"},
		"no memory":        {sequence(nil, ids(1, 2)...), sequence(nil, one...), 64 << 20, "takes 136 MB: set"},
	} {
		l := learning()
		l.Memory = c.memory
		if _, err := l.Learn(t.Context(), c.catalogue, c.history); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A catalogue of hybrids gives its texts back, for the next lesson.
func TestTexts(t *testing.T) {
	t.Parallel()
	first := learn(t, learning(), ids(1, 2), visits([2]int32{1, 2})...)
	store := kept{}
	catalogue := sequence(nil, profile.Product{ID: 1, Vector: []float32{3, 4}}, profile.Product{ID: 2})
	if _, err := first.Write(t.Context(), catalogue, store); err != nil {
		t.Fatal(err)
	}
	store[3] = profile.Product{ID: 3, Model: "another", Vector: []float32{1}}
	for p, err := range Texts(sequence(nil, store[1], store[2], store[3]), "text", 2, first.Setting()) {
		got := fmt.Sprintf("%s %.2v", p.Model, p.Vector)
		if want := map[int32]string{1: "text [0.42 0.57]", 2: "text []", 3: "another [1]"}[p.ID]; err != nil || got != want {
			t.Errorf("product %d: %q, want %q", p.ID, got, want)
		}
	}
	for p := range Texts(catalogue, "text", 2, profile.Learned{}) {
		if p.ID == 1 && !slices.Equal(p.Vector, []float32{3, 4}) {
			t.Errorf("without learned components: %v", p.Vector)
		}
	}
}
