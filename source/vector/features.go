package vector

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A feature is hashed as one kind byte and its text, so that a word is another
// feature than the same letters inside a longer one.
const (
	wordFeature   = 'w'
	gramFeature   = 'g'
	phraseFeature = 'p'
)

// Weights in fixed point. With half a word's weight per n-gram, a misspelt word
// stays nearer to the right one than to a word that shares an ending with it.
// The phrase counts little: it only tells orders of the same words apart, and
// gives texts without any letter their vector. Its weight is odd and all others
// are even, so that signed features may cancel out but never to the last one:
// the phrase's component is odd, the sum is not zero.
const (
	wordWeight   = 1 << 16
	gramWeight   = wordWeight / 2
	phraseWeight = wordWeight/4 + 1
)

// Character n-grams: long enough to carry a stem, short enough to survive a
// typing error.
const minGram, maxGram = 3, 5

// text adds the features of one text.
func (f *featureSum) text(text string) {
	text = normal(strings.ToLower(text))
	f.words = append(f.words[:0], strings.FieldsFunc(text, between)...)
	slices.Sort(f.words)
	for i := 0; i < len(f.words); {
		count := 1
		for i+count < len(f.words) && f.words[i+count] == f.words[i] {
			count++
		}
		f.word(f.words[i], count)
		i += count
	}
	f.phrase(text)
}

// even scales a weight and rounds it towards zero to an even number.
func even(root float64, weight int64) int64 { return int64(root*float64(weight)) &^ 1 }

// between reports whether r stands between words. Marks belong to their
// letters: half of the vowels of Indic scripts are marks.
func between(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}

func (f *featureSum) phrase(text string) {
	f.buffer = append(append(f.buffer[:0], phraseFeature), text...)
	f.add(f.buffer, phraseWeight)
}

// word adds a word that occurs count times, and its n-grams between < and >.
// The weight grows with the square root of the count: IEEE 754 fixes that root
// to the last bit, which it does not do for a logarithm.
func (f *featureSum) word(word string, count int) {
	root := math.Sqrt(float64(count))
	f.buffer = append(append(f.buffer[:0], wordFeature), word...)
	f.add(f.buffer, even(root, wordWeight))

	f.buffer = append(append(append(f.buffer[:0], '<'), word...), '>')
	f.starts = f.starts[:0]
	for i := 0; i < len(f.buffer); {
		f.starts = append(f.starts, i)
		_, size := utf8.DecodeRune(f.buffer[i:])
		i += size
	}
	f.starts = append(f.starts, len(f.buffer))
	f.grams(even(root, gramWeight))
}

// grams adds the n-grams of the padded word in the buffer.
func (f *featureSum) grams(weight int64) {
	var gram [1 + maxGram*utf8.UTFMax]byte
	gram[0] = gramFeature
	for n := minGram; n <= maxGram; n++ {
		for i := 0; i+n < len(f.starts); i++ {
			size := copy(gram[1:], f.buffer[f.starts[i]:f.starts[i+n]])
			f.add(gram[:1+size], weight)
		}
	}
}
