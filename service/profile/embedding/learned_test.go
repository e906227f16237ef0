package embedding

import (
	"log/slog"
	"slices"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/must"
	"keyfold/source/vector/openai"
)

// The service is asked for the components of texts by its model's name; phrases and products
// have zeros behind them, by the name of both.
func TestLearnedComponentsAreNotAskedFor(t *testing.T) {
	const key = "sk-of-a-test"
	api := embedtest.Start(t, embedtest.Config{Dimensions: 8, Model: openai.DefaultModel, Key: key, Seed: 7})
	learned := profile.Learned{Components: 3, Generation: "3f9a2c41"}
	resolve := func(learned profile.Learned) (phrase []float64, product []float32, model string) {
		c, err := parseEmbedding(t, map[string]string{"OPENAI_API_KEY": key, "OPENAI_BASE_URL": api.URL()}).Config(8, learned)
		must.OK(t, err)
		way, err := New(c, 0, slog.New(slog.DiscardHandler))
		must.OK(t, err)
		defer way.Close()
		answer := way.Phrases.Resolve(t.Context(), []string{"red shoes"})[0]
		if answer.Err != nil {
			t.Fatal(answer.Err)
		}
		products, err := way.Embedder.Embed(t.Context(), []string{"red shoes"})
		if err != nil || way.Embedder.Dimensions() != len(products[0]) || c.TextModel() != openai.DefaultModel || way.Embedder.Model() != c.Model {
			t.Fatalf("%v, %d components, model %s and %s", err, way.Embedder.Dimensions(), c.TextModel(), way.Embedder.Model())
		}
		return answer.Vector, products[0], c.Model
	}
	phrase, product, _ := resolve(profile.Learned{})
	widePhrase, wideProduct, model := resolve(learned)
	if model != "text-embedding-3-small+learned-3:3f9a2c41" {
		t.Errorf("the model is %s", model)
	}
	if !slices.Equal(widePhrase, append(slices.Clone(phrase), 0, 0, 0)) || !slices.Equal(wideProduct, append(slices.Clone(product), 0, 0, 0)) {
		t.Errorf("%v and %v, want %v and %v with zeros", widePhrase, wideProduct, phrase, product)
	}
}
