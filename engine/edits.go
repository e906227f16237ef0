package engine

import (
	"math/bits"
	"slices"
)

// Edits counts the letters to insert, delete, replace or swap with the next to make
// b of a. Above most, it returns most + 1: a program compares each variable of its
// environment with each of its settings, most of which differ from the first letters on.
func Edits(a, b string, most int) int {
	if max(len(a)-len(b), len(b)-len(a)) > most { // it takes as many at least
		return most + 1
	}
	// Each letter that the other word lacks takes an edit too.
	if of, other := letters(a), letters(b); max(bits.OnesCount64(of&^other), bits.OnesCount64(other&^of)) > most {
		return most + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		if slices.Min(row) > most { // then last has most at least, to which a swap adds one
			return most + 1
		}
	}
	return min(row[len(b)], most+1)
}

// letters has a bit for each letter of a word; two letters may share one.
func letters(word string) (set uint64) {
	for i := range len(word) {
		set |= 1 << (word[i] % 64)
	}
	return set
}
