package vector

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestNormalForm(t *testing.T) {
	for _, tc := range []struct{ phrase, kept, folded string }{
		{"  Caf\u0065\u0301\u00a0 Mug ", "Caf\u00e9 Mug", "caf\u00e9 mug"},
		{"\u212bngstr\u00f6m", "\u00c5ngstr\u00f6m", "\u00e5ngstr\u00f6m"}, // the sign of the unit is the letter
		{"US", "US", "us"},
		{"\u1112\u1161\u11ab", "\ud55c", "\ud55c"},
		{" \u2003\t", "", ""},
	} {
		if got := Normal(tc.phrase, false); got != tc.kept {
			t.Errorf("%q became %q, want %q", tc.phrase, got, tc.kept)
		}
		if got := Normal(tc.phrase, true); got != tc.folded {
			t.Errorf("%q was folded to %q, want %q", tc.phrase, got, tc.folded)
		}
	}
}

// The form of a form is itself, in form C and without stray white space; plain
// ASCII text is left as it is.
func TestNormalIsAForm(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		phrase := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune{
			'a', 'Z', ' ', '\t', '\u00a0', '\u0301', '\u0323', 'é', 'İ', 'ß', 'ſ', '\u1e9e', '한',
		}))).Draw(r, "phrase")
		for _, fold := range []bool{false, true} {
			text := Normal(phrase, fold)
			if again := Normal(text, fold); again != text {
				r.Fatalf("%q became %q, then %q", phrase, text, again)
			}
			if !norm.NFC.IsNormalString(text) || text != strings.Join(strings.Fields(text), " ") {
				r.Fatalf("%q became %q", phrase, text)
			}
		}
		if ascii := strings.Map(func(c rune) rune { return c & 0x7f }, phrase); Normal(ascii, false) != normal(ascii) {
			r.Fatalf("%q was changed", ascii)
		}
	})
}

func TestCacheGrowsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(1<<20, time.Hour)
		c.put("a", []float64{1})
		time.Sleep(time.Hour - time.Nanosecond)
		if c.get("a") == nil {
			t.Error("gone too early")
		}
		time.Sleep(time.Nanosecond)
		kept := c.get("a")
		if _, bytes := c.lru.Usage(); kept != nil || bytes != 0 {
			t.Errorf("still there, %d bytes", bytes)
		}
	})
}

func BenchmarkNormalASCII(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Normal("wireless bluetooth headphones", false)
	}
}
