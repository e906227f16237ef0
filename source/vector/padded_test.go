package vector

import (
	"slices"
	"testing"

	"keyfold/internal/testserver/must"
)

// Texts have zeros where products have learned components, by either way; a vector of a text is
// the same without them.
func TestZerosBehindTexts(t *testing.T) {
	t.Parallel()
	hash, err := NewHash(8)
	must.OK(t, err)
	bare, err := hash.Embed(t.Context(), []string{"red shoes"})
	must.OK(t, err)
	wide := Padded(hash, 3, "hash+learned")
	got, err := wide.Embed(t.Context(), []string{"red shoes"})
	if err != nil || wide.Dimensions() != 11 || wide.Model() != "hash+learned" || !slices.Equal(got[0], append(slices.Clone(bare[0]), 0, 0, 0)) {
		t.Errorf("%v, %v, want %v and zeros", got, err, bare)
	}
	plain, err := OfflinePhrases(8, 0)
	must.OK(t, err)
	phrases, err := OfflinePhrases(11, 3)
	must.OK(t, err)
	for range 2 { // made, and from the cache
		want, got := plain.Resolve(t.Context(), []string{"red shoes"})[0], phrases.Resolve(t.Context(), []string{"red shoes"})[0]
		if want.Err != nil || got.Err != nil || !slices.Equal(got.Vector, append(slices.Clone(want.Vector), 0, 0, 0)) {
			t.Errorf("%+v, want %+v and zeros", got, want)
		}
	}
	if _, err := OfflinePhrases(3, 3); err == nil {
		t.Error("no component is left for the text")
	}
}
